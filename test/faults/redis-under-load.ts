import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type { TestContext } from "vitest";
import type { TestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import type { TestRedis } from "../support/redis/redis.ts";
import type { TcpProxy } from "../support/wire/tcp-proxy.ts";
import {
  askTimed,
  changes,
  dayUsed,
  isReady,
  type Load,
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
  /** The longest that the event loop stood still, the machine being busy. */
  readonly stallMs: number;
  readonly perSecond: number;
  /** Answers of Redis, outside of the fault, that were as slow as if it were away. */
  readonly slowAnswers: number;
  /** How long requests took meanwhile that meet no gateway. */
  readonly control: readonly number[];
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
  const stalls = monitorEventLoopDelay({ resolution: 5 });
  stalls.enable();
  await using control = await startControl();
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
  stalls.disable();
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
  const charged = house.lines.reduce((sum, line) => sum + line.charged, 0);
  const stallMs = stalls.max / 1e6;
  const { length: underWay } = phases.before.filter(
    ({ atMs, tookMs }) => atMs + tookMs >= countedMs,
  );
  return {
    ...{ ...phases, house, backMs, underWay, used, charged, stallMs, perSecond },
    ...{ slowAnswers, owed, control: control.tookMs },
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

/** Requests to a server of this process that does nothing, one after the other. */
async function startControl(): Promise<AsyncDisposable & { readonly tookMs: readonly number[] }> {
  const server = createServer((_request, response) => response.end("{}"));
  await once(server.listen(0, "127.0.0.1"), "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const tookMs: number[] = [];
  let running = true;
  const asking = (async () => {
    while (running) {
      tookMs.push((await askTimed({ url }, "any")).tookMs);
      await sleep(5);
    }
  })();
  return {
    tookMs,
    [Symbol.asyncDispose]: async () => {
      running = false;
      await asking;
      server.close();
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

/**
 * No request waits because of a fault, compared with the same machine in the same run, which may be
 * busy with other things: a request through a gateway is read three times as often as one without.
 */
export function assertUnharmed(t: TestContext, name: string, run: Run): void {
  const { before, during, after, stallMs, backMs, perSecond, control } = run;
  const took = (told: readonly Told[], share: number) =>
    percentile(
      told.map(({ tookMs }) => tookMs),
      share,
    );
  const [base, then] = [took(before, 1), took([...during, ...after], 1)];
  const [most, often] = [3 * percentile(control, 1), 3 * percentile(control, 0.95)];
  void t.annotate(
    `${name} at ${perSecond} rps: slowest ${then.toFixed(0)} ms (${base.toFixed(0)} before), ` +
      `median ${took(during, 0.5).toFixed(2)} ms (${took(before, 0.5).toFixed(2)} before), ` +
      `shared counting ${Math.round(backMs)} ms after Redis answered, ` +
      `control ${most.toFixed(0)} ms at most, ${often.toFixed(1)} ms at p95, ${stallMs} stalled`,
  );
  const least = perSecond / 4;
  assert.ok(before.length > least && during.length > least, `${before.length}, ${during.length}`);
  assert.ok(then <= base + stallMs + most + BECAUSE_MS, `one took ${then} ms, ${base} before`);
  assert.ok(backMs <= BACK_MS + base + most, `shared counting ${backMs} ms after Redis answered`);
  const [firstMs = 0] = during.map(({ atMs }) => atMs);
  const settled = during.filter(({ atMs }) => atMs > firstMs + 400);
  const [waits, usual] = [took(settled, 0.95), took(before, 0.95)];
  const bound = 2 * usual + stallMs + often + 15;
  assert.ok(waits <= bound, `some wait for the store: p95 ${waits} ms, ${usual} before`);
}
