import assert from "node:assert/strict";
import { describe, it, onTestFinished } from "vitest";
import { DeprecatedCalls } from "../../../src/telemetry/history/deprecated-calls.ts";
import { DEPRECATED_API as API } from "../../support/gateway/deprecated-api.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { ACCOUNT, KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { freePorts, jsonOf, runVerb } from "../kit.ts";

type Told = {
  route: string;
  daysLeft: number;
  accounts: { account: string; requests: number; last: number }[];
}[];

/** A gateway with one key, the same as every other's, on a Redis that they share. */
async function openSharing(store: string, now?: () => number) {
  const [admin = 0] = await freePorts(1);
  return startTestGateway({
    ...(now && { now }),
    config: { store, admin: { listen: `127.0.0.1:${admin}` } },
    environment: { api: "./api.yaml", standing: "/v1/_limits" },
    files: { "api.yaml": API },
    keys: { [KEY]: { account: ACCOUNT } },
  });
}

describe("deprecations", () => {
  it("names the accounts that call what goes away, how often, and the days left", async () => {
    const [admin = 0] = await freePorts(1);
    await using house = await startTestGateway({
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
    assert.match(
      out,
      /production: GET \/v1\/older, gone for \d{4} days, since 2020-01-02 00:00:00Z\n {2}No account has called it up to a minute ago\n/,
    );
    await house.gateway.stop();
    assert.equal((await runVerb(asked)).status, 1);
  });

  it("are those of all gateways on a store, also of one that ended, and standing tells its own", async () => {
    const redis = await startRedis();
    const [key, account] = [KEY, ACCOUNT];
    await using house = await openSharing(redis.url);
    await using other = await openSharing(redis.url);
    const calls = async (file: string) => {
      const said = await runVerb(["deprecations", "--json", "--config", file]);
      assert.equal(said.status, 0, said.err);
      const old = jsonOf<Told>(said).find(({ route }) => route === "/v1/old");
      return old?.accounts.map((one) => [one.account, one.requests]);
    };
    await (await house.ask(key, "/v1/old")).text();
    for (let i = 0; i < 2; i++) await (await other.ask(key, "/v1/old")).text();
    await other.gateway.stop();
    assert.deepEqual(await calls(house.file), [[account, 3]], "the one that ended told its calls");
    // The store tells what its gateways told, but one that was named and is gone may know of more.
    const named = ["deprecations", "--admin", other.adminUrl, "--config", house.file];
    const lacking = await runVerb(named);
    assert.deepEqual([lacking.status, lacking.out], [1, ""]);
    assert.match(lacking.err, new RegExp(`at ${other.adminUrl} .*nothing listens there`));
    const standing = await (await house.ask(key, "/v1/_limits")).json();
    const { deprecated } = standing as { deprecated: { route: string; requests: number }[] };
    assert.deepEqual(
      deprecated.map(({ route, requests }) => [route, requests]),
      [["/v1/old", 3]],
    );
    await house.gateway.stop();
    assert.deepEqual(await calls(house.file), [[account, 3]], "nobody runs, the store knows");
    await redis.close();
    const away = await runVerb(["deprecations", "--config", house.file]);
    assert.equal(away.status, 1);
    assert.match(away.out, /GET \/v1\/old, \d+ days left, .*\n {2}Who calls it is unknown\n/);
    assert.match(away.err, /^Cannot tell who calls them: Cannot ask the store redis:.*\n$/);
  });

  it("have the last call by the clock of the store, as its line has, whatever that of the gateway is", async () => {
    const redis = await startRedis();
    onTestFinished(() => redis.close());
    for (const awayMs of [-7_200_000, 7_200_000]) {
      await using house = await openSharing(redis.url, () => Date.now() + awayMs);
      await (await house.ask(KEY, "/v1/old")).text();
      await eventually(() => assert.equal(house.lines.length, 1));
      const [line] = house.lines;
      assert.ok(Math.abs((line?.decidedAt ?? 0) - Date.now()) < 60_000, "decided by the store");
      const said = jsonOf<Told>(await runVerb(["deprecations", "--json", "--config", house.file]));
      const old = said.find(({ route }) => route === "/v1/old");
      const last = Math.floor((line?.decidedAt ?? 0) / 1_000);
      assert.deepEqual(
        old?.accounts.map((one) => one.last),
        [last],
      );
    }
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
