import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, afterEach, beforeAll, describe, it } from "vitest";
import { eventually } from "../support/poll.ts";
import { startRedis, type TestRedis } from "../support/redis/redis.ts";
import { openTcpProxy, type TcpProxy } from "../support/wire/tcp-proxy.ts";
import { changes, dayUsed, openHouseBehind, startLoad } from "./redis-house.ts";
import { assertChangesTold, assertUnharmed, PER_SECOND, underLoad } from "./redis-under-load.ts";
import { watchRedis } from "./watch-redis.ts";

/** 5 s on demand: TOLLGATE_STOPPED_S=5. */
const STOPPED_MS = Number(process.env.TOLLGATE_STOPPED_S ?? 1.6) * 1_000;

let server: TestRedis;
let proxy: TcpProxy;
beforeAll(async () => {
  server = await startRedis();
  proxy = await openTcpProxy(server);
});
afterEach(async () => {
  proxy.behave({});
  server.cont();
  await proxy.listen().catch(() => undefined);
});
afterAll(async () => {
  await proxy.close();
  await server.close();
});

describe("a gateway under load", () => {
  it("2.1 Dies mid-traffic, 2.1 Comes back: it goes on when Redis is killed: no 500, no 429, nobody waits; and shares again within 1.5 s", async (t) => {
    const acceptedAt: number[] = [];
    const run = await underLoad(
      { server, proxy },
      {
        away: async () => {
          await server.kill();
          acceptedAt.push(proxy.accepted());
          await sleep(1_000);
          acceptedAt.push(proxy.accepted());
        },
        awayMs: 1_200,
        back: async () => {
          acceptedAt.push(proxy.accepted());
          await server.restart();
        },
      },
    );
    assertChangesTold(run);
    const attempts = (acceptedAt[2] ?? 0) - (acceptedAt[1] ?? 0);
    assert.ok(attempts <= 2 * (1_200 / 500) + 3, `${attempts} attempts of 2 connections in 1.2 s`);
    // Redis kept nothing: what was admitted without it is charged, once, with all that came later.
    // It is short of the calls that got no answer, and ahead by those that were not answered yet.
    const owed = run.during.length + run.after.length;
    const earlier = run.underWay + run.owed;
    const found = `${run.used} of ${owed}, ${earlier} earlier`;
    assert.ok(run.used <= owed + earlier && run.used > owed - 300, found);
    assertUnharmed(t, "killed", run);
  });

  it("2.1 Slow: it goes on when Redis is stopped: the first few wait 50 ms, no more than a few calls run late", async (t) => {
    let sent = 0;
    const run = await underLoad(
      { server, proxy },
      {
        away: async () => {
          sent = await server.calls("evalsha");
          server.stop();
        },
        awayMs: STOPPED_MS,
        back: async () => {
          server.cont();
          await sleep(5);
          sent = (await server.calls("evalsha")) - sent;
        },
      },
    );
    t.annotate(`${sent} calls ran late`);
    assert.ok(sent <= 10 + STOPPED_MS / 150, `${sent} calls and probes ran late`);
    assertChangesTold(run);
    const { used, charged, uncertain } = run;
    const found = `${used} counted of ${charged}, ${uncertain} uncertain`;
    t.annotate(found);
    assert.ok(used <= charged + uncertain, `${found}: none twice but what is told`);
    assert.ok(used > charged - 300, found);
    assertUnharmed(t, "stopped", run);
  });

  it("2.1 SCRIPT FLUSH: it fails no request and charges none twice while SCRIPT FLUSH runs every 100 ms", async (t) => {
    const house = await openHouseBehind(proxy);
    t.onTestFinished(() => house[Symbol.asyncDispose]());
    const { key, account } = await house.issue({ plan: "enterprise", limits: { day: 5_000_000 } });
    const redis = await server.client();
    await using watch = await watchRedis(server);
    const load = startLoad(house, [key], PER_SECOND);
    for (let i = 0; i < 20; i++) {
      await sleep(100);
      await redis.script("FLUSH");
    }
    const told = await load.stop();
    assert.ok(told.length > 1_000);
    assert.deepEqual(
      told.filter(({ status }) => status !== 200),
      [],
    );
    const [lines, slow] = [changes(house).length, watch.slow()];
    assert.ok(lines <= 2 * slow, `${lines} changes, ${slow} slow answers`);
    // On a busy machine some got their answer too late, and are charged afterwards.
    await eventually(async () => assert.equal(await dayUsed(house, account), told.length));
    await house.law();
  });
});
