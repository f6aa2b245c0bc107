import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import type { TestContext } from "vitest";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import type { TestRedis } from "../support/redis/redis.ts";
import type { TcpProxy } from "../support/wire/tcp-proxy.ts";
import {
  changes,
  dayUsed,
  isReady,
  type Load,
  metric,
  openHouseBehind,
  percentile,
  startLoad,
  type Told,
} from "./redis-house.ts";
import { watchRedis } from "./watch-redis.ts";

/** Because of a fault no request may take longer than this. */
const BECAUSE_MS = 150;
/** From when Redis answers again, counting is shared after this at the latest. */
const BACK_MS = 1_500;
export const PER_SECOND = 1_000;

/** A thousand requests a second, or what this machine can do now beside its other work. */
async function bearableLoad(
  house: TestGateway,
  key: string,
): Promise<Load & { perSecond: number }> {
  for (let perSecond = PER_SECOND; ; perSecond /= 2) {
    const load = startLoad(house, [key], perSecond);
    await sleep(600);
    const usualMs = percentile(
      load.told.slice(-perSecond / 4).map(({ tookMs }) => tookMs),
      0.5,
    );
    if (usualMs < 20 || perSecond <= 125) return { ...load, perSecond };
    await load.stop();
  }
}

type Phases = { readonly before: Told[]; readonly during: Told[]; readonly after: Told[] };

export type Run = Phases & {
  readonly house: TestGateway;
  /** From the first answer of Redis to the line that says so. */
  readonly backMs: number;
  /** Requests before the fault whose answer came after it, or just before. */
  readonly underWay: number;
  /** Those that were decided without Redis before it, and may be charged only after it. */
  readonly owed: number;
  /** Units that the store counted, and those that the log says were charged. */
  readonly used: number;
  readonly charged: number;
  /** Units of calls that may have run though their answers were lost with a connection. */
  readonly uncertain: number;
  readonly perSecond: number;
  /** Answers of Redis, outside of the fault, that were as slow as if it were away. */
  readonly slowAnswers: number;
  /** Requests of the same time to a gateway without Redis. */
  readonly control: readonly Told[];
};

/** A gateway at 1,000 rps; `away` takes the store from it, `back` gives it back. */
export async function underLoad(
  { server, proxy }: { readonly server: TestRedis; readonly proxy: TcpProxy },
  { away, back, awayMs }: { away: () => unknown; back: () => unknown; awayMs: number },
): Promise<Run> {
  await using redis = await watchRedis(server);
  await using house = await openHouseBehind(proxy);
  const { key, account } = await house.issue({ plan: "enterprise", limits: { day: 5_000_000 } });
  const load = await bearableLoad(house, key);
  const { perSecond } = load;
  const warmMs = performance.now();
  await sleep(1_500);
  await using control = await startControl(perSecond / 4);
  const countedMs = performance.now();
  const owed = await decidedAlone(house);
  const awayAtMs = performance.now();
  await away();
  await sleep(awayMs);
  const backAtMs = performance.now();
  await back();
  const answersMs = performance.now();
  await eventually(() => changes(house).includes("store_back"), { everyMs: 2 });
  const backMs = performance.now() - answersMs;
  await eventually(async () => (await isReady(house)).status === 200);
  await sleep(300);
  const told = await load.stop();
  const slowAnswers = redis.slow({ fromMs: awayAtMs, toMs: answersMs });
  const between = (fromMs: number, toMs: number) => {
    return told.filter(({ atMs }) => atMs >= fromMs && atMs < toMs);
  };
  const phases = {
    before: between(warmMs, awayAtMs),
    during: between(awayAtMs, backAtMs),
    after: between(backAtMs, Number.POSITIVE_INFINITY),
  };
  assert.deepEqual(
    told.filter(({ status }) => status !== 200).map(({ status, code }) => [status, code]),
    [],
    "no 500, and no 429 by error",
  );
  const used = await settledUse(house, account);
  const charged = house.lines.reduce((sum, entry) => sum + entry.charged, 0);
  const uncertain = await metric(house, "tollgate_charges_uncertain_total");
  const { length: underWay } = phases.before.filter(
    ({ atMs, tookMs }) => atMs + tookMs >= countedMs,
  );
  return {
    ...{ ...phases, house, backMs, underWay, used, charged, uncertain, perSecond },
    ...{ slowAnswers, owed, control: control.told },
  };
}

/** The units counted once late charges bring no more. */
async function settledUse(house: TestGateway, account: string): Promise<number> {
  return eventually(async () => {
    await eventually(async () => (await isReady(house)).status === 200);
    const used = await dayUsed(house, account);
    await sleep(300);
    assert.equal(await dayUsed(house, account), used);
    return used;
  });
}

/** Read once, so that the metrics are those of now. */
async function decidedAlone(house: TestGateway): Promise<number> {
  const text = await (await house.admin("/metrics")).text();
  const [, count] = /^tollgate_store_unavailable_decisions_total\{.*\} (\d+)/m.exec(text) ?? [];
  return Number(count ?? 0);
}

/** Requests to a gateway with the memory store, in this process: what they wait for is the machine. */
async function startControl(
  perSecond: number,
): Promise<AsyncDisposable & { readonly told: readonly Told[] }> {
  const house = await startTestGateway({ config: { plans: { enterprise: "custom" } } });
  const { key } = await house.issue({ plan: "enterprise", limits: { day: 5_000_000 } });
  const load = startLoad(house, [key], perSecond);
  await eventually(() => load.told.length > 0);
  return {
    told: load.told,
    [Symbol.asyncDispose]: async () => {
      await load.stop();
      await house[Symbol.asyncDispose]();
    },
  };
}

/** The store went and came once for the fault, and else only where Redis itself was slow. */
export function assertChangesTold({ house, slowAnswers }: Run): void {
  const told = changes(house);
  const inTurn = told.map((_, i) => (i % 2 === 0 ? "store_away" : "store_back"));
  assert.deepEqual(told, inTurn, "one line per change");
  const times = Math.ceil(told.length / 2);
  assert.ok(times >= 1 && times <= 1 + slowAnswers, `${times}, ${slowAnswers} slow answers`);
}

/** How much longer a request took than the slowest of those without Redis that were under way too. */
function beyondMs({ atMs, tookMs }: Told, control: readonly Told[]): number {
  const beside = control.filter((one) => {
    return one.atMs <= atMs + tookMs && one.atMs + one.tookMs >= atMs;
  });
  return tookMs - Math.max(0, ...beside.map((one) => one.tookMs));
}

/**
 * No request waits because of a fault, compared with the same machine at the same time, which may be
 * busy with other things.
 */
export function assertUnharmed(t: TestContext, name: string, run: Run): void {
  const { before, during, after, backMs, perSecond, control } = run;
  const took = (told: readonly Told[], share: number) =>
    percentile(
      told.map(({ tookMs }) => tookMs),
      share,
    );
  const beyond = (told: readonly Told[], share: number) =>
    percentile(
      told.map((one) => beyondMs(one, control)),
      share,
    );
  const all = [...during, ...after];
  const most = Math.max(...control.map(({ tookMs }) => tookMs));
  void t.annotate(
    `${name} at ${perSecond} rps: slowest ${took(all, 1).toFixed(0)} ms (${took(before, 1).toFixed(0)} before), ` +
      `${beyond(all, 1).toFixed(0)} ms beyond the control, ` +
      `median ${took(during, 0.5).toFixed(2)} ms (${took(before, 0.5).toFixed(2)} before), ` +
      `shared counting ${Math.round(backMs)} ms after Redis answered, control ${most.toFixed(0)} ms at most`,
  );
  const least = perSecond / 4;
  assert.ok(before.length > least && during.length > least, `${before.length}, ${during.length}`);
  // One that waits twice for the store, which is away, is held up by the machine as often.
  const waited = beyond(all, 1);
  assert.ok(waited <= BECAUSE_MS + most, `one took ${waited} ms more than beside it`);
  assert.ok(backMs <= BACK_MS + most, `shared counting ${backMs} ms after Redis answered`);
  const [firstMs = 0] = during.map(({ atMs }) => atMs);
  const settled = during.filter(({ atMs }) => atMs > firstMs + 400);
  const [waits, usual] = [beyond(settled, 0.95), took(before, 0.95)];
  assert.ok(waits <= 2 * usual + 15, `some wait for the store: p95 ${waits} ms, ${usual} before`);
}
