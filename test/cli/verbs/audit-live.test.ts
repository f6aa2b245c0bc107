import assert from "node:assert/strict";
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "vitest";
import type { TestGateway } from "../../support/gateway/house.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { audited, type Line, line, openAudited, type Told } from "../audit-kit.ts";
import { jsonOf, runVerb } from "../kit.ts";

const API = `
openapi: 3.1.0
info: { title: t, version: "1" }
paths:
  /one: { get: { operationId: one, x-cost: 3, x-limits: { day: 900000 }, responses: { "200": { description: ok } } } }
  /two: { get: { operationId: two, responses: { "200": { description: ok } } } }
`;

async function openShared(store: string): Promise<TestGateway> {
  return openAudited({
    config: {
      ...{ store, history: "400d", bans: "off" },
      plans: {
        free: { minute: 1_000_000, day: 1_000_000 },
        pro: { day: 1_000_000, month: 1_000_000 },
      },
    },
    environment: { api: "./api.yaml" },
    files: { "api.yaml": API },
  });
}

describe("audit of live traffic", () => {
  it("finds no drift while two gateways serve, whatever this machine's clock says", async () => {
    const redis = await startRedis();
    await using one = await openShared(redis.url);
    await using other = await openShared(redis.url);
    const { key } = await one.issue();
    const stopped = { is: false };
    const clients = [one, other, one, other].map(async (house, i) => {
      while (!stopped.is) await (await house.ask(key, i < 2 ? "/v1/one" : "/v1/two")).text();
    });
    try {
      const routes = () => new Set([...one.lines, ...other.lines].map(({ route }) => route));
      await eventually(() => assert.equal(routes().size, 2));
      for (let round = 0; round < 6; round++) {
        const log = join(one.directory, `${round}.log`);
        const told = [one, other]
          .flatMap((house) => [house.said, house.lines])
          .map((lines) => {
            return { lines, next: 0 };
          });
        // The file grows while the audit reads it, as the log of a gateway does.
        const write = () => {
          for (const each of told) {
            const more = each.lines.slice(each.next);
            each.next += more.length;
            appendFileSync(log, more.map((text) => `${JSON.stringify(text)}\n`).join(""));
          }
        };
        write();
        // It ends with the round, whatever the audit does: the folder of the log goes.
        using _writing = setInterval(write, 50);
        const nowMs = Date.now() + (round % 3) * 5_000 - 5_000;
        const args = ["audit", "--log", log, "--admin", other.adminUrl, "--config", one.file];
        const said = await runVerb([...args, "--json"], { nowMs });
        const { drift, matched, explained, notCompared } = jsonOf<Told>(said);
        assert.deepEqual([said.status, drift], [0, []], said.out);
        // A minute that ends while the audit reads is not compared.
        const isOver = notCompared.some(({ window }) => window === "minute");
        const least = isOver ? 2 : 3;
        assert.ok(
          matched + explained.length >= least,
          `minute, day, the operation's day: ${said.out}`,
        );
      }
    } finally {
      stopped.is = true;
      await Promise.all(clients);
      await redis.close();
    }
  });

  it("takes no gateway on the same store for a killed one because only another was asked", async () => {
    const redis = await startRedis();
    await using house = await openShared(redis.url);
    await using _beside = await openShared(redis.url);
    const { key } = await house.issue();
    for (let i = 0; i < 3; i++) await (await house.ask(key, "/v1/two")).text();
    await eventually(async () => {
      const told = (await (await house.admin("/api/gateways")).json()) as unknown[];
      assert.deepEqual([told.length, house.lines.length], [2, 3]);
    });
    const edit = (lines: readonly Line[]) => {
      const { time } = line(lines, 0) as { time?: unknown };
      return [{ msg: "serving", time }, { msg: "serving", time }, ...lines.slice(1)];
    };
    const { told } = await audited(house, { edit });
    // The minute may be over meanwhile.
    const day = told.notCompared.find(({ window }) => window === "day");
    const untold = "requests under way are not known: 1 of 2 running gateways told them";
    assert.deepEqual([day?.why, told.drift], [untold, []]);
    const killed = await audited(house, {
      edit: (lines) => {
        const { decidedAt: time } = line(lines, 0);
        const serving = [-172_800_000, 1, 1].map((ms) => ({ msg: "serving", time: time + ms }));
        // It served for two days, and its last sign of life was no request.
        return [...serving.toSpliced(1, 0, { msg: "keys", time }), ...lines.slice(1)];
      },
    });
    const why = killed.told.explained.find(({ window }) => window === "day")?.why ?? "";
    assert.match(why, /^1 unit more: a gateway ended without a last line at 20/);
    await redis.close();
  });

  it("compares the windows of operations, which a line of another one does not excuse", async () => {
    const redis = await startRedis();
    await using house = await openShared(redis.url);
    const { key } = await house.issue();
    for (const path of ["one", "one", "two"]) await (await house.ask(key, `/v1/${path}`)).text();
    await eventually(() => assert.equal(house.lines.length, 3));
    const right = await audited(house);
    assert.deepEqual([right.status, right.told.drift, right.told.matched], [0, [], 3]);
    const wrong = await audited(house, {
      edit: (lines) => lines.with(0, { ...line(lines, 0), route: "/v1/two" }),
    });
    const found = wrong.told.drift.map(({ window, drift }) => [window, drift]);
    assert.deepEqual([wrong.status, found], [1, [["one.day", 3]]]);
    await redis.close();
  });

  it("explains an upgrade of a plan, and finds a doubled line beside it", async () => {
    const redis = await startRedis();
    await using house = await openShared(redis.url);
    const { key, account } = await house.issue();
    const ask = async (times: number) => {
      for (let i = 0; i < times; i++) await (await house.ask(key, "/v1/two")).text();
    };
    await ask(3);
    const body = JSON.stringify({ plan: "pro" });
    const path = `/api/accounts/${account}`;
    assert.equal((await house.admin(path, { method: "PATCH", body })).status, 200);
    await ask(2);
    await eventually(() => assert.equal(house.lines.length, 5));
    const right = await audited(house);
    assert.deepEqual([right.status, right.told.drift], [0, []]);
    const month = right.told.explained.find(({ window }) => window === "month");
    assert.match(month?.why ?? "", /^3 units fewer: the plan was changed, and free does not have/);
    const wrong = await audited(house, { edit: (lines) => [...lines, line(lines, 0)] });
    assert.deepEqual(
      wrong.told.drift.map(({ window, drift }) => [window, drift]),
      [["day", -1]],
    );
    await redis.close();
  });

  it("explains an upgrade while a request of before is under way, and finds a doubled line beside it", async () => {
    const redis = await startRedis();
    await using house = await openShared(redis.url);
    const release = Promise.withResolvers<void>();
    house.backend.answer(async (_seen, response) => {
      response.write("{");
      await release.promise;
      response.end("}");
    });
    const { key, account } = await house.issue();
    const held = await house.ask(key, "/v1/two");
    house.backend.answer((_seen, response) => void response.end());
    await (await house.ask(key, "/v1/two")).text();
    const body = JSON.stringify({ plan: "pro" });
    const path = `/api/accounts/${account}`;
    assert.equal((await house.admin(path, { method: "PATCH", body })).status, 200);
    await (await house.ask(key, "/v1/two")).text();
    await eventually(() => assert.equal(house.lines.length, 2));
    const right = await audited(house);
    assert.deepEqual([right.status, right.told.drift], [0, []]);
    const units = (each: Told) => each.explained.map(({ window, open }) => [window, open]);
    assert.deepEqual(
      units(right.told).filter(([window]) => window !== "minute"),
      [...[["day", 1]], ...[["month", 0]]],
    );
    const wrong = await audited(house, { edit: (lines) => [...lines, line(lines, 0)] });
    assert.deepEqual(
      wrong.told.drift.map(({ window, open, drift }) => [window, open, drift]),
      [["day", 1, -1]],
    );
    release.resolve();
    await held.text();
    await redis.close();
  });
});
