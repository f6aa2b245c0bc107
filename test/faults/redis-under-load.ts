import assert from "node:assert/strict";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import type { TestContext } from "vitest";
import type { TestGateway } from "../support/gateway/house.ts";
import { eventually } from "../support/poll.ts";
import type { TcpProxy } from "../support/wire/tcp-proxy.ts";
import {
  changes,
  dayUsed,
  isReady,
  type Load,
  openHouseBehind,
  percentile,
  startLoad,
  type Told,
} from "./redis-house.ts";

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
  /** Requests before the fault whose answer came after it. */
  readonly underWay: number;
  /** Units that the store counted, and those that the log says were charged. */
  readonly used: number;
  readonly charged: number;
  /** The longest that the event loop stood still, the machine being busy. */
  readonly stallMs: number;
  readonly perSecond: number;
};

/** A gateway at 1,000 rps; `away` takes the store from it, `back` gives it back. */
export async function underLoad(
  proxy: TcpProxy,
  { away, back, awayMs }: { away: () => unknown; back: () => unknown; awayMs: number },
): Promise<Run> {
  await using house = await openHouseBehind(proxy);
  const { key, account } = await house.issue({ plan: "enterprise", limits: { day: 5_000_000 } });
  const load = await bearableLoad(house, key);
  const { perSecond } = load;
  const warmMs = performance.now();
  await sleep(1_500);
  const stalls = monitorEventLoopDelay({ resolution: 5 });
  stalls.enable();
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
  const used = await dayUsed(house, account);
  const charged = house.lines.reduce((sum, line) => sum + line.charged, 0);
  const stallMs = stalls.max / 1e6;
  const { length: underWay } = phases.before.filter(
    ({ atMs, tookMs }) => atMs + tookMs >= awayAtMs,
  );
  return { ...phases, house, backMs, underWay, used, charged, stallMs, perSecond };
}

/**
 * How a fault made requests wait, in words; undefined where it did not. Compared with the same
 * machine in the same run: it may be busy with other things.
 */
function harm(
  t: TestContext,
  name: string,
  { before, during, after, stallMs, backMs, perSecond }: Run,
): string | undefined {
  const took = (told: readonly Told[], share: number) =>
    percentile(
      told.map(({ tookMs }) => tookMs),
      share,
    );
  const [base, then] = [took(before, 1), took([...during, ...after], 1)];
  void t.annotate(
    `${name} at ${perSecond} rps: slowest ${then.toFixed(0)} ms (${base.toFixed(0)} before), ` +
      `median ${took(during, 0.5).toFixed(2)} ms (${took(before, 0.5).toFixed(2)} before), ` +
      `shared counting ${Math.round(backMs)} ms after Redis answered`,
  );
  const least = perSecond / 4;
  assert.ok(before.length > least && during.length > least, `${before.length}, ${during.length}`);
  if (then > base + stallMs + BECAUSE_MS) {
    return `one took ${then} ms, ${base} before, ${stallMs} stalled`;
  }
  if (backMs > BACK_MS + base) return `shared counting ${backMs} ms after Redis answered`;
  const [firstMs = 0] = during.map(({ atMs }) => atMs);
  const settled = during.filter(({ atMs }) => atMs > firstMs + 400);
  const [waits, usual] = [took(settled, 0.95), took(before, 0.95)];
  return waits > 2 * usual + stallMs + 15
    ? `some wait for the store: p95 ${waits} ms, ${usual} before`
    : undefined;
}

/**
 * A gateway whose fault makes requests wait does so each time; what else the machine does, does not:
 * the claim about time holds when it holds in one of three runs. All others must hold in each.
 */
export async function assertUnharmed(
  t: TestContext,
  name: string,
  fault: () => Promise<Run>,
): Promise<void> {
  const harms: string[] = [];
  while (harms.length < 3) {
    const found = harm(t, name, await fault());
    if (found === undefined) return;
    harms.push(found);
  }
  assert.fail(`in each of three runs: ${harms.join("; ")}`);
}
