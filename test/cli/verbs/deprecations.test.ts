import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { DeprecatedCalls } from "../../../src/telemetry/deprecated-calls.ts";
import { openHouse } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { freePorts, jsonOf, runVerb } from "../kit.ts";

const API = `
openapi: 3.1.0
info: { title: t, version: "1" }
paths:
  /old:
    get:
      operationId: old
      deprecated: true
      x-deprecated-since: "2020-01-01"
      x-sunset: "2126-01-01"
      responses: { "200": { description: ok } }
  /older:
    get:
      operationId: older
      deprecated: true
      x-deprecated-since: "2020-01-01"
      x-sunset: "2125-01-01"
      responses: { "200": { description: ok } }
  /new:
    get:
      operationId: new
      responses: { "200": { description: ok } }
`;

type Told = {
  route: string;
  daysLeft: number;
  accounts: { account: string; requests: number; last: number }[];
}[];

describe("deprecations", () => {
  it("names the accounts that call what goes away, how often, and the days left", async () => {
    const [admin = 0] = await freePorts(1);
    await using house = await openHouse({
      config: { admin: { listen: `127.0.0.1:${admin}` } },
      environment: { api: "./api.yaml" },
      files: { "api.yaml": API },
    });
    const [one, two] = [await house.issue(), await house.issue()];
    for (const [key, path] of [
      [one.key, "/v1/old"],
      [one.key, "/v1/old"],
      [two.key, "/v1/new"],
      ["nobody", "/v1/old"],
    ] as const) {
      await (await house.ask(key, path)).text();
    }
    const asked = ["deprecations", "--config", house.file];
    await eventually(() => assert.equal(house.lines.length, 4));
    const said = await runVerb([...asked, "--json"]);
    assert.equal(said.status, 0, said.err);
    const [older, old, ...rest] = jsonOf<Told>(said);
    assert.deepEqual([older?.route, older?.accounts, rest], ["/v1/older", [], []]);
    assert.deepEqual(
      [old?.route, old?.accounts.map(({ account, requests }) => [account, requests])],
      ["/v1/old", [[one.account, 2]]],
    );
    assert.equal(old?.daysLeft, Math.ceil((Date.UTC(2126, 0) - Date.now()) / 86_400_000));
    assert.ok(Math.abs((old?.accounts[0]?.last ?? 0) - Date.now() / 1_000) < 60);
    const { out } = await runVerb(asked);
    assert.match(
      out,
      /production: GET \/v1\/old, \d+ days left, until 2126-01-01 00:00:00Z\nACCOUNT/,
    );
    await house.started.stop();
    assert.equal((await runVerb(asked)).status, 1);
  });

  it("are remembered of 10,000 accounts an operation: the one that called longest ago leaves", () => {
    const calls = new DeprecatedCalls();
    const operation = { environment: "production", method: "GET", route: "/v1/old" };
    for (let i = 0; i < 10_000; i++) calls.note(operation, `a${i}`, 1_000);
    calls.note(operation, "a0", 2_000);
    calls.note(operation, "new", 3_000);
    const names = new Set(calls.list().map(({ account }) => account));
    assert.deepEqual([names.size, names.has("a0"), names.has("a1")], [10_000, true, false]);
  });
});
