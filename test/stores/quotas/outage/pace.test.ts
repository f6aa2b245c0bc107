import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, it } from "vitest";
import type { QuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { StoreFailure } from "../../../../src/stores/redis/store-failure.ts";
import { watchStalls } from "../../../support/in-time.ts";
import { eventually } from "../../../support/poll.ts";
import { startRedis } from "../../../support/redis/redis.ts";
import { openTcpProxy } from "../../../support/wire/tcp-proxy.ts";
import { openFallback, policyOf } from "./fallback-kit.ts";

const server = await startRedis();
const redis = await server.client();
afterAll(() => server.close());

/** Notes when each heartbeat of a gateway goes out, on performance.now(), and tells of each answer. */
function watched(sentMs: number[], prefix: string, onAnswer: () => unknown = () => {}) {
  return ({ link, ...shared }: QuotaClient): QuotaClient => {
    const send: typeof link.send = (key, name, args, read) => {
      const reply = link.send(key, name, args, read);
      if (key === `${prefix}:{0}:gateways` && name === "evalsha") {
        sentMs.push(performance.now());
        void reply.then(onAnswer, onAnswer);
      }
      return reply;
    };
    const watching = { ...link, clustered: link.clustered, tried: link.tried, send };
    return Object.assign(Object.create(shared), shared, { link: watching });
  };
}

/** The pauses between heartbeats, in milliseconds. */
const pausesIn = (sentMs: readonly number[]) => {
  return sentMs.slice(1).map((ms, i) => ms - (sentMs[i] as number));
};

// Each with a prefix and a way to Redis of its own: they wait for the clock, all at once.

it.concurrent("the heartbeat is each second while the store is well, and each half a second while it does not answer", async () => {
  const sentMs: number[] = [];
  const prefix = "pace";
  await using proxy = await openTcpProxy(server);
  const policy = { storeTimeoutMs: 10_000 };
  await using house = await openFallback(proxy, {
    policy,
    prefix,
    through: watched(sentMs, prefix),
  });
  await eventually(() => sentMs.length >= 2, { withinMs: 20_000 });
  const well = pausesIn(sentMs);
  // A timer is never early but for the millisecond that Node rounds.
  assert.ok(Math.min(...well) > 990, `${well} ms`);

  house.gate.reconfigure(policyOf());
  proxy.behave({ blackHole: true });
  await eventually(() => house.gate.isAway(0), { withinMs: 20_000 });
  sentMs.length = 0;
  const { stalledMs } = await watchStalls(() => eventually(() => sentMs.length >= 4));
  const away = pausesIn(sentMs);
  assert.ok(Math.min(...away) > 490, `${away} ms: one at a time`);
  // As patient as a request, and no more. Nothing but timers of this process is waited for.
  assert.ok(Math.max(...away) < 900 + stalledMs, `${away} ms, ${stalledMs} stalled`);
});

it.concurrent("a store that does not answer is away after two heartbeats or as long without a connection, within two and a half seconds, without any request", async () => {
  const sentMs: number[] = [];
  const prefix = "late";
  await using proxy = await openTcpProxy(server);
  await using house = await openFallback(proxy, {
    policy: { storeTimeoutMs: 10_000 },
    prefix,
    through: watched(sentMs, prefix),
  });
  await eventually(() => sentMs.length >= 2, { withinMs: 20_000 });
  house.gate.reconfigure(policyOf());
  proxy.behave({ blackHole: true });
  const { stalledMs } = await watchStalls(() => eventually(() => house.gate.isAway(0)));
  // Half a second for the answer, a second to the next one, and as much for that one if it finds a
  // connection. The store is tried again as soon as it is away, which is none of the two.
  const awayMs = performance.now();
  const waited = awayMs - (sentMs.findLast((ms) => ms < awayMs - 100) ?? Number.NaN);
  // Or a connection that was silent for a second is lost for half a second more. That is timed from
  // before the heartbeat was noted here.
  assert.ok(waited > 1_450, `${waited} ms`);
  assert.ok(waited < 2_500 + stalledMs, `${waited} ms, ${stalledMs} stalled`);
});

it.concurrent("the heartbeat is waited for as long as a request is, where that is longer than half a second", async () => {
  const sentMs: number[] = [];
  const prefix = "patient";
  await using proxy = await openTcpProxy(server);
  const policy = { storeTimeoutMs: 30_000 };
  await using house = await openFallback(proxy, {
    policy,
    prefix,
    through: watched(sentMs, prefix),
  });
  proxy.behave({ answerLatencyMs: 700 });
  sentMs.length = 0;
  // The answers to two of them have been waited for by then.
  await eventually(() => sentMs.length >= 3, { withinMs: 60_000 });
  assert.deepEqual([house.changes(), house.gate.health()], [[], { ok: true }]);
});

it.concurrent("the heartbeat comes at once after a failure, since another gateway may wait for what this one owes", async () => {
  const sentMs: number[] = [];
  const prefix = "soon";
  let answers = 0;
  await using proxy = await openTcpProxy(server);
  const policy = { storeTimeoutMs: 10_000 };
  await using house = await openFallback(proxy, {
    policy,
    prefix,
    through: watched(sentMs, prefix, () => ++answers),
  });
  await using _other = await openFallback(proxy, { policy, prefix });
  await eventually(async () => assert.equal(await redis.zcard(`${prefix}:{0}:gateways`), 2));
  const nextBeat = () => {
    const beats = sentMs.length;
    return eventually(() => sentMs.length > beats);
  };
  // One of each second, and answered: without the failure the next one would be a second later.
  do await nextBeat();
  while ((pausesIn(sentMs).at(-1) ?? 0) < 990);
  await eventually(() => answers === sentMs.length);
  const failedMs = performance.now();
  const { stalledMs } = await watchStalls(async () => {
    house.gate.onCallEnd(0, new StoreFailure("late", "too late", "unknown"));
    await nextBeat();
  });
  const pause = (sentMs.at(-1) ?? Number.NaN) - failedMs;
  assert.ok(pause < 500 + stalledMs, `${pause} ms, ${stalledMs} stalled`);
});

it.concurrent("the store is told to be back once, though a heartbeat is due while one is under way", async () => {
  const prefix = "twice";
  let isHeld = false;
  const waiting: (() => void)[] = [];
  const policy = { storeTimeoutMs: 20_000 };
  await using house = await openFallback(server, {
    policy,
    prefix,
    through: ({ link, ...shared }) => {
      const send: typeof link.send = async (key, ...command) => {
        if (isHeld) await new Promise<void>((resolve) => void waiting.push(resolve));
        return link.send(key, ...command);
      };
      const holding = { ...link, clustered: link.clustered, tried: link.tried, send };
      return Object.assign(Object.create(shared), shared, { link: holding });
    },
  });
  await eventually(async () => assert.equal(await redis.zcard(`${prefix}:{0}:gateways`), 1));
  isHeld = true;
  await eventually(() => assert.equal(waiting.length, 1));
  const failure = new StoreFailure("late", "no answer", "unknown");
  for (let i = 0; i < 5; i++) house.gate.onCallEnd(0, failure);
  await eventually(() => assert.equal(waiting.length, 2));
  // The one that was under way ends, and another one is due while the second is under way.
  waiting.shift()?.();
  await sleep(1_000);
  isHeld = false;
  for (const release of waiting) release();
  await eventually(() => house.gate.health().ok);
  await house.store.close();
  assert.deepEqual(house.changes(), ["store_away", "store_back"]);
});
