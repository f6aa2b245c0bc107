import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import { runVerb } from "../../cli/kit.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { ACCOUNT, KEY } from "../../support/gateway/served.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { errorOf, rateLimitFieldsOf, sendRequest } from "../../support/wire/client.ts";
import { onlyValue } from "../../support/wire/response.ts";

const NOON = Date.UTC(2026, 5, 1, 12);
const BANS = { strikes: 3, within: "1m", grace: "1s", duration: "1h", factor: 4 };

const bansTold = ({ said }: TestGateway) => said.filter(({ kind }) => kind === "ban");

async function usageOf(house: TestGateway, account: string) {
  const response = await house.admin(`/api/usage/${account}`);
  return (await response.json()) as { readonly strikes: number; readonly ban: unknown };
}

async function bansCounted(house: TestGateway): Promise<number> {
  const metrics = await (await house.admin("/metrics")).text();
  return Number(/^tollgate_bans_total\{.*\} (\d+)$/m.exec(metrics)?.[1] ?? 0);
}

describe("with bans: { observe: true }", () => {
  it("an earned ban is told and counted, clears the strikes, and is not kept", async () => {
    let nowMs = NOON;
    const config = { bans: { ...BANS, observe: true }, plans: { free: { day: 2 } } };
    await using house = await startTestGateway({ now: () => nowMs, config });
    const { key, account } = await house.issue();
    for (let i = 0; i < 2; i++) assert.equal((await sendRequest(house.port, { key })).status, 200);
    /** Refused, and never for a ban: gives the strikes then. */
    const refused = async () => {
      const answer = await sendRequest(house.port, { key });
      assert.deepEqual([answer.status, errorOf(answer).code], [429, "rate_limited"]);
      assert.equal(onlyValue(answer, "X-RateLimit-Window"), "day");
      assert.equal(rateLimitFieldsOf(answer).reset, NOON / 1_000 + 43_200);
      return (await usageOf(house, account)).strikes;
    };
    assert.equal(await refused(), 0, "the first refusal of a window");
    const strikes: number[] = [];
    for (let i = 0; i < 6; i++) {
      nowMs += i % 3 === 0 ? 1_001 : 1_000;
      strikes.push(await refused());
    }
    assert.deepEqual(strikes, [1, 2, 0, 1, 2, 0]);
    const until = Math.ceil(nowMs / 1_000) + 3_600;
    await eventually(() => assert.equal(bansTold(house).length, 2));
    const told = bansTold(house).map(({ observed, offences, window, strikes: at }) => {
      return [observed, offences, window, (at as unknown[]).length];
    });
    const line = [true, 1, "day", 3];
    assert.deepEqual(told, [line, line], "an observed ban is no offence");
    assert.equal(bansTold(house)[1]?.until, until);
    assert.equal(await bansCounted(house), 2);
    assert.deepEqual(await (await house.admin("/api/bans")).json(), []);
    assert.deepEqual((await usageOf(house, account)).ban, null);
    const why = (await (await house.admin(`/api/bans/${account}`)).json()) as { bans: unknown[] };
    assert.deepEqual(
      why.bans.map((ban) => (ban as { observed: unknown }).observed),
      [true, true],
    );

    await house.rewrite({ bans: BANS });
    assert.equal((await house.admin("/api/reload", { method: "POST" })).status, 200);
    for (let i = 0; i < 3; i++) {
      nowMs += i === 0 ? 1_001 : 1_000;
      const answer = await sendRequest(house.port, { key });
      assert.equal(errorOf(answer).code, i < 2 ? "rate_limited" : "key_banned");
    }
    const ban = (await usageOf(house, account)).ban as { until: number; offences: number };
    assert.deepEqual(ban, { until: Math.ceil(nowMs / 1_000) + 3_600, offences: 1 });
    await eventually(() => assert.equal(bansTold(house).length, 3));
    assert.ok(!("observed" in (bansTold(house)[2] ?? {})));
    await house.law();
  });

  it("two gateways on one Redis tell each such ban once, and refuse nobody for it", async () => {
    const redis = await startRedis();
    const bans = { ...BANS, grace: "5ms", observe: true };
    const config = { store: redis.url, bans, plans: { free: { month: 3 } } };
    const options = { config, keys: { [KEY]: { id: ACCOUNT } } };
    try {
      await using one = await startTestGateway(options);
      await using other = await startTestGateway(options);
      const codes = new Set<unknown>();
      for (let i = 0; i < 3; i++)
        assert.equal((await sendRequest(one.port, { key: KEY })).status, 200);
      await eventually(
        async () => {
          for (const { port } of [one, other]) {
            codes.add(errorOf(await sendRequest(port, { key: KEY })).code);
            await sleep(3);
          }
          assert.ok(bansTold(one).length + bansTold(other).length >= 4);
        },
        { withinMs: 60_000 },
      );
      assert.deepEqual([...codes], ["rate_limited"]);
      const listed = await runVerb(["bans", "list", "--json", "--config", one.file]);
      assert.deepEqual([listed.status, listed.out.trim()], [0, "[]"]);
      const { strikes, ban } = await usageOf(other, ACCOUNT);
      assert.ok(strikes < 3 && ban === null);
      for (const house of [one, other]) {
        await eventually(async () =>
          assert.equal(await bansCounted(house), bansTold(house).length),
        );
        for (const each of bansTold(house)) {
          assert.deepEqual([each.observed, each.offences, each.window], [true, 1, "month"]);
        }
      }
      // A ban needs three strikes: no decision that saw fewer of them may have told one.
      const told = [...bansTold(one), ...bansTold(other)];
      const decided = told.map(({ decidedAt }) => Number(decidedAt)).sort((a, b) => a - b);
      for (const [i, at] of decided.entries()) {
        if (i > 0) assert.ok(at - (decided[i - 1] ?? 0) >= 3 * 5, `${decided}`);
      }
    } finally {
      await redis.close();
    }
  });
});
