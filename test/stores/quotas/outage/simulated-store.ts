import { type AccountState, decide, NEW_ACCOUNT_STATE } from "../../../../src/core/quota/decide.ts";
import { Batcher } from "../../../../src/stores/quotas/batch/batcher.ts";
import { DecisionCache } from "../../../../src/stores/quotas/batch/decision-cache.ts";
import type { CallOutcome } from "../../../../src/stores/quotas/batch/outcomes.ts";
import { Fallback } from "../../../../src/stores/quotas/outage/fallback.ts";
import type { AccountRequest, QuotaDecider } from "../../../../src/stores/quotas/quota-store.ts";
import type { QuotaClient } from "../../../../src/stores/quotas/redis/quota-client.ts";
import { StoreClock } from "../../../../src/stores/redis/store-clock.ts";
import { StoreFailure, withTimeout } from "../../../../src/stores/redis/store-failure.ts";
import { policyOf } from "./fallback-kit.ts";

/** The instant at which the simulation begins: ten seconds into a minute. */
const BEGIN_MS = Date.UTC(2026, 6, 15, 12, 0, 10);
const TIMEOUT_MS = 50;

/** One account in a store that runs on the fake clock, and the faults of the way to it. */
export class SimulatedStore {
  account: AccountState = NEW_ACCOUNT_STATE;
  /** Calls that arrive before then run only then. */
  pausedUntilMs = 0;
  /** Units that calls charged whose gateways have no answer yet, or had given up when it came. */
  lateUnits = 0;
  readonly #beats = new Map<string, { atMs: number; settledMs: number }>();
  #turn = Promise.resolve();

  now(): number {
    return BEGIN_MS + performance.now();
  }

  count(startMs: number): number {
    const held = this.account.usage.minute;
    return held?.startMs === startMs ? held.count : 0;
  }

  /** Runs a call as Redis does: after its way there, in order, not while it stands still. */
  async call<T>(way: Way, run: () => T, giveUpMs?: number): Promise<T> {
    const arrived = inOrder(way, "there", way.latencyMs);
    const before = this.#turn;
    const ran = Promise.all([arrived, before]).then(async () => {
      while (performance.now() < this.pausedUntilMs) await sleep(5);
      if (giveUpMs !== undefined && performance.now() > giveUpMs) {
        throw new StoreFailure("LATE", "too late", "no", Math.floor(this.now()));
      }
      return run();
    });
    this.#turn = arrived.then(async () => {
      await ran.catch(() => undefined);
    });
    const settled = await ran.then(
      (value) => ({ value }),
      (error: unknown) => ({ error }),
    );
    await inOrder(way, "back", way.replyLatencyMs);
    if ("error" in settled) throw settled.error;
    return settled.value;
  }

  decideAll(requests: readonly AccountRequest[]): CallOutcome[] {
    return requests.map(({ quotaRequest }) => {
      const { account, decision } = decide(this.account, quotaRequest, this.now());
      this.account = account;
      return decision;
    });
  }

  /** late-charge.lua for the one account and its minute. */
  chargeLate(text: string): number[] {
    const nowMs = this.now();
    const reply = [nowMs, 0];
    for (const [, , start, units] of text.matchAll(/(\w+) (\d+) (-?\d+)(?:~\d+)?(?= |$)/g)) {
      const startMs = Number(start);
      const isRunning = startMs === Math.floor(nowMs / 60_000) * 60_000;
      const held = this.account.usage.minute;
      const stored = held?.startMs === startMs ? held : { startMs, count: 0, refusedMs: 0 };
      const count = Math.max(0, stored.count + Number(units));
      if (isRunning) {
        this.account = { ...this.account, usage: { minute: { ...stored, count } } };
      }
      reply.push(isRunning ? count : -1, 0, stored.refusedMs > 0 ? 1 : 0);
    }
    return reply;
  }

  beat(id: string, isAlive: boolean, settledMs: number): unknown[] {
    const nowMs = this.now();
    const isThere = this.#beats.has(id) ? 1 : 0;
    for (const [name, { atMs }] of this.#beats) if (nowMs - atMs > 5_000) this.#beats.delete(name);
    this.#beats.delete(id);
    const peers = [...this.#beats].flatMap(([name, beat]) => [name, beat.settledMs]);
    if (isAlive) this.#beats.set(id, { atMs: nowMs, settledMs });
    return [this.#beats.size, nowMs, isThere, ...peers];
  }
}

/** The way between a gateway and the store: what goes later arrives later, whatever the latency is by then. */
export type Way = {
  latencyMs: number;
  replyLatencyMs: number;
  there: Promise<void>;
  back: Promise<void>;
};

function inOrder(way: Way, which: "there" | "back", ms: number): Promise<void> {
  const passed = Promise.all([way[which], sleep(ms)]).then(() => undefined);
  way[which] = passed;
  return passed;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

export type SimulatedGateway = {
  readonly decider: Pick<QuotaDecider, "charge">;
  readonly gate: Fallback;
  readonly way: Way;
  readonly close: () => Promise<void>;
};

const no = () => undefined;

function clientOf(store: SimulatedStore, way: Way): QuotaClient {
  const clock = new StoreClock();
  const unanswered = new Set<number>();
  const timed = async <T>(run: () => T, giveUpMs?: number) => {
    const sentMs = performance.now();
    const result = await store.call(way, run, giveUpMs);
    clock.learn(sentMs, performance.now(), Math.floor(store.now()));
    return result;
  };
  const link = {
    clustered: false,
    tried: Promise.resolve(),
    health: () => ({ ok: true }) as const,
    send: async (
      _key: string,
      _name: string,
      args: readonly unknown[],
      read: (reply: unknown) => unknown,
    ) => {
      const [id, alive, settledMs, tag] = args.slice(-4);
      const beat = () => store.beat(String(id), alive === 1, Number(settledMs));
      return read([tag, await store.call(way, beat)]);
    },
  };
  return {
    decide: async (requests: readonly AccountRequest[], giveUpMs?: number) => {
      const sentMs = performance.now();
      unanswered.add(sentMs);
      let units = 0;
      const decide = () => {
        const outcomes = store.decideAll(requests);
        units = outcomes.reduce((sum, one) => sum + ("granted" in one ? mostUnits(one) : 0), 0);
        store.lateUnits += units;
        return outcomes;
      };
      try {
        return await timed(decide, giveUpMs);
      } catch (error) {
        return requests.map(() => ({ failure: error as StoreFailure }));
      } finally {
        unanswered.delete(sentMs);
        // The gateway has made of the answer what it makes of it by then.
        void sleep(1).then(() => {
          store.lateUnits -= units;
        });
      }
    },
    runOnAccounts: (...[, , args, giveUpMs]: Parameters<QuotaClient["runOnAccounts"]>) => {
      return timed(() => store.chargeLate(String(args[1]).split(";")[2] ?? ""), giveUpMs);
    },
    keyOf: () => "account",
    clockOf: () => clock,
    knowsClock: () => clock.isKnown,
    ensureClock: (_: number, ms: number) =>
      clock.isKnown ? undefined : withTimeout(timed(no), ms),
    answeredUntilMs: () => Math.min(performance.now(), ...unanswered),
    historyMs: undefined,
    link,
  } as unknown as QuotaClient;
}

/** A gateway on the store: the parts of the product between a request and its calls. */
export function openGateway(store: SimulatedStore, expectedGateways = 1): SimulatedGateway {
  const ready = Promise.resolve();
  const way: Way = { latencyMs: 1, replyLatencyMs: 1, there: ready, back: ready };
  const quotaClient = clientOf(store, way);
  const decisionCache = new DecisionCache();
  const nothing = () => {};
  const corrections = {
    onBanned: nothing,
    onLowered: nothing,
    onCounted: nothing,
    onCountLost: nothing,
    onDayClosed: nothing,
    onSettlementLost: nothing,
  };
  const inputs = { quotaClient, decisionCache, onUncertain: () => {}, corrections };
  const policy = policyOf({ expectedGateways, storeTimeoutMs: TIMEOUT_MS });
  const gate = new Fallback(inputs, { policy, prefix: "sim", report: () => {} });
  const believe = gate.onLateDecision.bind(gate);
  gate.onLateDecision = (request, decision) => {
    store.lateUnits += mostUnits(decision);
    believe(request, decision);
  };
  const batch = new Batcher({
    call: (groups, giveUpMs) => groups.map((requests) => quotaClient.decide(requests, giveUpMs)),
    queueOf: () => 0,
    nodeOf: () => store,
    decisionCache,
    outage: gate,
    onVerdict: () => {},
    onCalled: () => {},
    onUncertain: () => {},
  });
  const close = async () => {
    batch.close();
    await gate.close();
  };
  return { decider: batch, gate, way, close };
}

/** The greatest cost of a request in a history. */
export const COST_MAX = 3;

function mostUnits({ granted }: { readonly granted: number }): number {
  return granted * COST_MAX;
}
