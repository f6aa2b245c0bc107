import assert from "node:assert/strict";
import fc from "fast-check";
import { afterEach, beforeEach, describe, it, vi } from "vitest";
import { windowStart } from "../../../../src/core/quota/windows.ts";
import { account } from "../redis/redis-kit.ts";
import { COST_MAX, openGateway, type SimulatedGateway, SimulatedStore } from "./simulated-store.ts";

beforeEach(() => {
  vi.useFakeTimers({
    toFake: ["setTimeout", "clearTimeout", "setImmediate", "performance", "Date"],
  });
  // A gateway that has yet to hear of the store goes by the clock of the machine.
  vi.setSystemTime(new SimulatedStore().now());
});
afterEach(() => {
  vi.useRealTimers();
});

const accountRef = account("a");
const GATEWAYS_MAX = 4;

type WindowSum = { admitted: number; shareRefusals: number };

/** Gateways on one store, and what their clients were told, by the end of the window. */
class Trial {
  readonly store = new SimulatedStore();
  readonly gateways: SimulatedGateway[] = [];
  readonly windows = new Map<number, WindowSum>();
  readonly falseRefusals: string[] = [];
  readonly #limit: number;
  readonly #expected: number;
  #opened = 0;
  #asked: Promise<unknown>[] = [];

  constructor(limit: number, expected: number) {
    this.#limit = limit;
    this.#expected = expected;
  }

  get opened(): number {
    return this.#opened;
  }

  open(): void {
    this.#opened += 1;
    this.gateways.push(openGateway(this.store, this.#expected));
  }

  /** Sends requests through a gateway, without waiting for their answers. */
  send(gateway: number, requests: number, cost = 1): void {
    const { decider } = this.gateways[gateway % this.gateways.length] as SimulatedGateway;
    const limits = [{ window: "minute", limit: this.#limit }] as const;
    const quotaRequest = { limits, bans: undefined, requests: 1, cost };
    for (let i = 0; i < requests; i++) {
      this.#asked.push(
        Promise.resolve(decider.charge(accountRef, quotaRequest)).then((answer) => {
          assert.ok("decision" in answer, "under local there is always an answer");
          const resetMs = answer.decision.windows[0]?.resetMs as number;
          const window = this.windows.get(resetMs) ?? { admitted: 0, shareRefusals: 0 };
          this.windows.set(resetMs, window);
          if (answer.admitted) window.admitted += cost;
          else if (answer.by === "share") window.shareRefusals += 1;
          else this.#judge(answer.by, window, cost, resetMs);
        }),
      );
    }
  }

  /** A 429 is false if what was admitted, and what late calls may have charged, leaves room. */
  #judge(by: string, { admitted }: WindowSum, cost: number, resetMs: number): void {
    const most = Math.max(admitted, this.store.count(resetMs - 60_000)) + this.store.lateUnits;
    if (most + cost <= this.#limit) {
      this.falseRefusals.push(`by ${by}: at most ${most} of ${this.#limit} used, cost ${cost}`);
    }
  }

  async run(ms: number): Promise<void> {
    await vi.advanceTimersByTimeAsync(ms);
  }

  /** Heals everything, and lets all that is owed be charged. */
  async settle(): Promise<void> {
    this.store.pausedUntilMs = 0;
    for (const { way } of this.gateways) Object.assign(way, { latencyMs: 1, replyLatencyMs: 1 });
    await this.run(8_000);
    await Promise.all(this.#asked.splice(0));
  }

  async end(): Promise<void> {
    for (const { close } of this.gateways) {
      const closed = close();
      await this.run(3_000);
      await closed;
    }
  }
}

const gateway = fc.nat(GATEWAYS_MAX - 1);
const ms = fc.constantFrom(5, 30, 60, 120, 300, 700, 1_200, 2_500);
const step = fc.oneof(
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant("send" as const),
      gateway,
      requests: fc.integer({ min: 1, max: 12 }),
      cost: fc.integer({ min: 1, max: COST_MAX }),
    }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant("wait" as const), ms }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant("pause" as const), ms }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("slow" as const),
      gateway,
      ms,
      isReply: fc.boolean(),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("fast" as const), gateway }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("join" as const) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("leave" as const), gateway }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

async function take(trial: Trial, each: Step): Promise<void> {
  const at = "gateway" in each ? trial.gateways[each.gateway % trial.gateways.length] : undefined;
  if (each.kind === "send") trial.send(each.gateway, each.requests, each.cost);
  if (each.kind === "wait") await trial.run(each.ms);
  if (each.kind === "pause") trial.store.pausedUntilMs = performance.now() + each.ms;
  if (each.kind === "slow" && at !== undefined) {
    at.way[each.isReply ? "replyLatencyMs" : "latencyMs"] = each.ms;
  }
  if (each.kind === "fast" && at !== undefined)
    Object.assign(at.way, { latencyMs: 1, replyLatencyMs: 1 });
  if (each.kind === "join" && trial.opened < GATEWAYS_MAX) trial.open();
  if (each.kind === "leave" && trial.gateways.length > 1 && at !== undefined) {
    trial.gateways.splice(trial.gateways.indexOf(at), 1);
    void at.close();
  }
}

describe("random histories of outages, late answers, joins and leaves", () => {
  it("refuse no account with room by 429, pass no bound, and lose no unit", async () => {
    const history = fc.record({
      limit: fc.constantFrom(12, 60, 1_000, 1e9),
      gateways: fc.integer({ min: 1, max: 3 }),
      steps: fc.array(step, { minLength: 5, maxLength: 40, size: "max" }),
    });
    let shareRefusals = 0;
    const play = async ({
      limit,
      gateways,
      steps,
    }: typeof history extends fc.Arbitrary<infer T> ? T : never) => {
      const trial = new Trial(limit, GATEWAYS_MAX);
      for (let i = 0; i < gateways; i++) trial.open();
      await trial.run(1_500);
      for (const each of steps) await take(trial, each);
      await trial.settle();
      assert.deepEqual(trial.falseRefusals, []);
      for (const [resetMs, { admitted, shareRefusals: shares }] of trial.windows) {
        assert.ok(admitted <= 2 * limit + GATEWAYS_MAX - 1, `${admitted} of ${limit} admitted`);
        const isNow = resetMs > trial.store.now();
        const isWhole = !steps.some(({ kind }) => kind === "leave");
        if (isNow && isWhole)
          assert.equal(trial.store.count(resetMs - 60_000), admitted, "the count");
        shareRefusals += shares;
      }
      await trial.end();
    };
    await fc.assert(fc.asyncProperty(history, play), { numRuns: 200 });
    assert.ok(shareRefusals > 0, "no share was ever used up: nothing was tried");
  });

  it("with the count known to all admit no more than the limit and G - 1, three outages in a row", async () => {
    const outage = fc.record({
      pauseMs: fc.integer({ min: 200, max: 1_500 }),
      requests: fc.array(fc.nat(80), { minLength: 3, maxLength: 3 }),
      after: fc.array(fc.record({ gateway, requests: fc.nat(40), ms: fc.nat(150) }), {
        maxLength: 8,
      }),
    });
    const history = fc.record({
      limit: fc.integer({ min: 10, max: 150 }),
      gateways: fc.integer({ min: 1, max: 3 }),
      outages: fc.array(outage, { minLength: 1, maxLength: 3 }),
    });
    const play = async ({
      limit,
      gateways,
      outages,
    }: typeof history extends fc.Arbitrary<infer T> ? T : never) => {
      const trial = new Trial(limit, gateways);
      for (let i = 0; i < gateways; i++) trial.open();
      await trial.run(2_500);
      for (const { pauseMs, requests, after } of outages) {
        for (let i = 0; i < gateways; i++) {
          trial.send(i, 1, 0);
          await trial.run(20);
        }
        trial.store.pausedUntilMs = performance.now() + pauseMs;
        // Each loses the store: one that asks nothing keeps it, and has no share.
        for (let i = 0; i < gateways; i++) trial.send(i, (requests[i] as number) + 1);
        await trial.run(pauseMs);
        for (const each of after) {
          trial.send(each.gateway % gateways, each.requests);
          await trial.run(each.ms);
        }
        await trial.settle();
      }
      for (let i = 0; i < gateways; i++) trial.send(i, limit);
      await trial.settle();
      assert.deepEqual(trial.falseRefusals, []);
      for (const { admitted } of trial.windows.values()) {
        assert.ok(admitted <= limit + gateways - 1, `${admitted} of ${limit} by ${gateways}`);
      }
      const last = [...trial.windows.values()].at(-1);
      assert.ok((last?.admitted ?? 0) >= limit, "room is kept for gateways that owe nothing");
      await trial.end();
    };
    await fc.assert(fc.asyncProperty(history, play), { numRuns: 100 });
  });

  it("leave a gateway no share of what another one may owe since the outage before", async () => {
    const trial = new Trial(100, 2);
    for (let i = 0; i < 2; i++) trial.open();
    await trial.run(2_500);
    for (let i = 0; i < 2; i++) trial.send(i, 1, 0);
    await trial.run(20);
    const [first, second] = trial.gateways as [SimulatedGateway, SimulatedGateway];
    const admitted = () => [...trial.windows.values()][0]?.admitted;
    trial.store.pausedUntilMs = performance.now() + 300;
    second.way.replyLatencyMs = 3_000;
    for (let i = 0; i < 2; i++) trial.send(i, 60);
    await trial.run(1_000);
    assert.equal(admitted(), 100, "both have used up their shares");
    assert.equal(trial.store.count(windowStart("minute", trial.store.now())), 50, "one is back");
    first.way.replyLatencyMs = 300;
    trial.send(0, 60);
    await trial.run(200);
    assert.equal(admitted(), 100, "and goes again, while the other one owes the rest");
    await trial.settle();
    assert.deepEqual(trial.falseRefusals, []);
    assert.equal(admitted(), 100);
    await trial.end();
  });
});
