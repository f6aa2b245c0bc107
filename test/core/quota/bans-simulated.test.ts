import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { type AccountState, decide, NEW_ACCOUNT_STATE } from "../../../src/core/quota/decide.ts";
import { rateLimitRefusal, retryAfterSeconds } from "../../../src/core/quota/rate-limit-info.ts";
import type { Limit } from "../../../src/core/quota/windows.ts";
import { DEFAULT_BANS } from "../../support/gateway/default-bans.ts";

const FREE: readonly Limit[] = [
  { window: "minute", limit: 60 },
  { window: "day", limit: 1_000 },
];
const EXHAUSTED_DAY: readonly Limit[] = [{ window: "day", limit: 1 }];
const SECOND = 1_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const MIDNIGHT = Date.UTC(2026, 6, 15);
const NOON = MIDNIGHT + 12 * HOUR;

/** One account, asked one request at a time; remembers its first ban. */
class Simulated {
  account: AccountState = NEW_ACCOUNT_STATE;
  bannedMs: number | undefined;
  admitted = 0;
  refused = 0;
  readonly #limits: readonly Limit[];

  constructor(limits: readonly Limit[]) {
    this.#limits = limits;
  }

  /** Asks; undefined when admitted, else the seconds of Retry-After. */
  ask(nowMs: number): number | undefined {
    const quotaRequest = { limits: this.#limits, bans: DEFAULT_BANS, requests: 1 };
    const { account, decision } = decide(this.account, quotaRequest, nowMs);
    this.account = account;
    if (decision.ban !== undefined) this.bannedMs ??= nowMs;
    if (decision.granted === 1) {
      this.admitted += 1;
      return undefined;
    }
    this.refused += 1;
    const refusal = rateLimitRefusal(decision, nowMs);
    assert.ok(refusal);
    return retryAfterSeconds(refusal.rateLimitInfo.resetMs, nowMs);
  }
}

/** mulberry32: numbers from 0 to below 1, the same for the same seed. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** Workers that each wait as `delayMs` says after each refusal, from `startMs` on for `forMs`. */
function runWorkers(
  simulated: Simulated,
  count: number,
  startMs: number,
  forMs: number,
  delayMs: (attempt: number) => number,
): void {
  const workers = Array.from({ length: count }, () => ({ atMs: startMs, attempt: 0 }));
  for (;;) {
    const next = workers.reduce((soonest, each) => (each.atMs < soonest.atMs ? each : soonest));
    if (next.atMs >= startMs + forMs) return;
    simulated.ask(Math.floor(next.atMs));
    next.atMs += delayMs(next.attempt);
    next.attempt += 1;
  }
}

describe("By simulation, no ban is earned by", () => {
  it("a burst of 200 at once over an exhausted minute, again each minute of an hour", () => {
    const simulated = new Simulated([{ window: "minute", limit: 60 }]);
    for (let minute = 0; minute < 60; minute++) {
      for (let i = 0; i < 200; i++) simulated.ask(NOON + minute * 60_000);
    }
    assert.deepEqual([simulated.bannedMs, simulated.admitted], [undefined, 3_600]);
  });

  it("a burst of 200 at once, spread over the second that a network makes of it", () => {
    for (let seed = 0; seed < 200; seed++) {
      const random = seeded(seed);
      const simulated = new Simulated(EXHAUSTED_DAY);
      const offsets = Array.from({ length: 200 }, () => Math.floor(random() * 1_000));
      for (const offsetMs of offsets.sort((a, b) => a - b)) simulated.ask(NOON + offsetMs);
      assert.equal(simulated.account.strikesMs.length, 0);
    }
  });

  it("a client that obeys Retry-After for a day at ten times its quota", () => {
    for (let seed = 0; seed < 20; seed++) {
      const random = seeded(seed);
      const simulated = new Simulated(FREE);
      let atMs = MIDNIGHT;
      while (atMs < MIDNIGHT + DAY) {
        const seconds = simulated.ask(Math.floor(atMs));
        // Ten times 60 a minute, jittered; or exactly what the answer said.
        atMs += seconds === undefined ? 50 + random() * 100 : seconds * SECOND;
      }
      assert.equal(simulated.bannedMs, undefined, `seed ${seed}`);
      assert.equal(simulated.admitted, 1_000);
      assert.ok(simulated.refused < 40, `${simulated.refused} refusals`);
    }
  });

  it("ten workers of one account that each obey Retry-After for a day", () => {
    for (let seed = 0; seed < 20; seed++) {
      const random = seeded(seed);
      const simulated = new Simulated(FREE);
      const workers = Array.from({ length: 10 }, () => MIDNIGHT + random() * SECOND);
      for (;;) {
        const next = workers.indexOf(Math.min(...workers));
        const atMs = workers[next] ?? 0;
        if (atMs >= MIDNIGHT + DAY) break;
        const seconds = simulated.ask(Math.floor(atMs));
        workers[next] = atMs + (seconds === undefined ? random() * 2_000 : seconds * SECOND);
      }
      assert.equal(simulated.bannedMs, undefined, `seed ${seed}`);
    }
  });

  it("a poll each 10 s on an exhausted day", () => {
    const simulated = new Simulated(EXHAUSTED_DAY);
    for (let atMs = NOON; atMs < MIDNIGHT + DAY; atMs += 10_000) simulated.ask(atMs);
    assert.equal(simulated.bannedMs, undefined);
  });

  /** Jitter has tails: all four may draw short waits in the first minute, at 20 strikes to a ban. */
  it("four workers with full-jitter backoff, cap 60 s, on an exhausted day, but for 1 in 200", (t) => {
    const runs = 1_000;
    let banned = 0;
    for (let seed = 0; seed < runs; seed++) {
      const random = seeded(seed);
      const simulated = new Simulated(EXHAUSTED_DAY);
      simulated.ask(NOON - 1);
      runWorkers(simulated, 4, NOON, 2 * HOUR, (attempt) => {
        return random() * Math.min(60_000, SECOND * 2 ** attempt);
      });
      if (simulated.bannedMs !== undefined) banned += 1;
    }
    t.annotate(`${banned} of ${runs} runs were banned`);
    assert.ok(banned <= runs / 200, `${banned} of ${runs} were banned`);
  });
});

describe("By simulation, a client hammering an exhausted window", () => {
  for (const everyMs of [1_000, 500, 250, 100, 50, 10, 1]) {
    it(`every ${everyMs} ms is banned within half a minute`, () => {
      const simulated = new Simulated(EXHAUSTED_DAY);
      simulated.ask(NOON - 1);
      for (let atMs = NOON; atMs < NOON + 60_000; atMs += everyMs) simulated.ask(atMs);
      const afterMs = (simulated.bannedMs ?? Number.POSITIVE_INFINITY) - NOON;
      assert.ok(afterMs > 20_000 && afterMs <= 30_000, `${afterMs} ms`);
    });
  }

  it("at any steady pace of a second or less is banned within 41 s: strikes are a second apart", () => {
    for (let everyMs = 1; everyMs <= 1_000; everyMs++) {
      const simulated = new Simulated(EXHAUSTED_DAY);
      simulated.ask(NOON - 1);
      for (let atMs = NOON; atMs < NOON + 60_000; atMs += everyMs) simulated.ask(atMs);
      const afterMs = (simulated.bannedMs ?? Number.POSITIVE_INFINITY) - NOON;
      const strikeMs = everyMs * Math.ceil(1_000 / everyMs);
      assert.ok(afterMs <= 20 * strikeMs + everyMs, `every ${everyMs} ms: ${afterMs} ms`);
      assert.ok(afterMs <= 41_000);
    }
  });

  it("from fifty workers gets one strike a second, as from one", () => {
    for (let seed = 0; seed < 50; seed++) {
      const random = seeded(seed);
      const simulated = new Simulated(EXHAUSTED_DAY);
      simulated.ask(NOON - 1);
      runWorkers(simulated, 50, NOON, 60_000, () => 200 + random() * 800);
      const afterMs = (simulated.bannedMs ?? Number.POSITIVE_INFINITY) - NOON;
      assert.ok(afterMs >= 20_000 && afterMs <= 30_000, `seed ${seed}: ${afterMs} ms`);
    }
  });

  it("is let in by the first request after ban and window are over", () => {
    const simulated = new Simulated(FREE);
    let atMs = NOON;
    while (simulated.bannedMs === undefined) {
      simulated.ask(atMs);
      atMs += 100;
    }
    const seconds = simulated.ask(atMs) ?? 0;
    assert.notEqual(simulated.ask(atMs + (seconds - 1) * SECOND), undefined);
    assert.equal(simulated.ask(atMs + seconds * SECOND), undefined);
  });
});
