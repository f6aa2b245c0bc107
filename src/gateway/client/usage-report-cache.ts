import { setTimeout as pause } from "node:timers/promises";
import { AgingMap } from "../../base/aging-map.ts";
import type { Ban } from "../../core/quota/bans.ts";
import type { QuotaDecision } from "../../core/quota/decide.ts";
import type { Limit } from "../../core/quota/windows.ts";
import type { DeprecatedCall } from "../../telemetry/history/deprecated-calls.ts";

/** Caps of keys, by the id of their part of the account. */
type CapsByKey = ReadonlyMap<string, readonly Limit[]>;

/** The decision of the store about one account, with a ban that it has lost. */
type Peeked = { readonly decision: QuotaDecision; readonly lostBan: Ban | undefined };

/** The deprecated calls of an account; undefined if the store did not tell them. */
type Calls = readonly DeprecatedCall[] | undefined;

type Standing = Peeked & { readonly deprecated: Calls };

/** The store's last answer about one account, when it was asked for, and the answer before it. */
type CacheEntry = {
  readonly told: Promise<Standing>;
  readonly askedMs: number;
  readonly askedBeforeMs: number;
  readonly calls: Promise<Calls>;
  readonly callsAskedMs: number;
  /** The keys whose caps the answer has. */
  readonly caps: CapsByKey;
  /** The next request, for which keys wait that the answer lacks. */
  next:
    | { readonly caps: Map<string, readonly Limit[]>; readonly told: Promise<Standing> }
    | undefined;
};

type CachedUsage = Standing & { readonly ageMs: number };

/** Asks the store for the account, with these caps of its keys. */
type PeekWithCaps = (caps: readonly Limit[]) => Promise<Peeked>;

type AskOptions = {
  /** The caps of the requesting key. */
  readonly caps?: readonly Limit[];
  /** Reads the deprecated calls of the account, which are none by default. */
  readonly readCalls?: () => Promise<Calls>;
};

const SECOND_MS = 1_000;
/** The least number of accounts kept once there are more; at most twice as many are kept. */
const KEPT = 5_000;
/** The keys with caps that one request asks for. */
const KEYS_TOGETHER = 64;

/** Whether the caps of a key are as they were asked for: they may change between two answers. */
function isSame(asked: readonly Limit[] | undefined, caps: readonly Limit[]): boolean {
  return (
    asked?.length === caps.length &&
    caps.every(({ window, limit }, i) => asked[i]?.window === window && asked[i]?.limit === limit)
  );
}

const NO_CALLS = async (): Promise<Calls> => [];

/**
 * Asks the store for the standing of an account at most twice a second, and for its deprecated calls
 * once; each process does. A client that asks more often gets the last answer and its age
 * (docs/reference/plans.md#standing). The keys with caps of an account are asked for together: one
 * that the last answer lacks waits for the next.
 */
export class UsageReportCache {
  readonly #known = new AgingMap<CacheEntry>(KEPT);

  /** `elapsedMs` is on a monotonic clock. Rejects as `peek` does. */
  async ask(
    id: string,
    elapsedMs: number,
    peek: PeekWithCaps,
    { caps = [], readCalls = NO_CALLS }: AskOptions = {},
  ): Promise<CachedUsage> {
    const own = caps[0]?.part?.id;
    const known = this.#known.get(id);
    const dueMs = known === undefined ? elapsedMs : known.askedBeforeMs + SECOND_MS;
    if (known === undefined || elapsedMs >= dueMs) {
      const wanted = new Map([
        ...(known?.next?.caps ?? []),
        ...(own ? [[own, caps] as const] : []),
      ]);
      const renewed = this.#renew(id, elapsedMs, peek, { wanted, readCalls });
      return { ...(await renewed.told), ageMs: 0 };
    }
    if (own === undefined || isSame(known.caps.get(own), caps)) {
      return { ...(await known.told), ageMs: elapsedMs - known.askedMs };
    }
    if (known.next === undefined) {
      const wanted = new Map<string, readonly Limit[]>();
      const sinceMs = elapsedMs - performance.now();
      // A timer drops fractions of a millisecond, and would be early.
      const told = pause(Math.ceil(dueMs - elapsedMs), undefined, { ref: false }).then(() => {
        const newest = this.#known.get(id);
        const isNewer = newest !== undefined && newest !== known;
        if (isNewer) return newest.told;
        const nowMs = sinceMs + performance.now();
        return this.#renew(id, nowMs, peek, { wanted, readCalls }).told;
      });
      known.next = { caps: wanted, told };
    }
    known.next.caps.set(own, caps);
    return { ...(await known.next.told), ageMs: 0 };
  }

  /** Asks for these keys, and for those of the last answer as far as they fit. */
  #renew(
    id: string,
    nowMs: number,
    peek: PeekWithCaps,
    { wanted, readCalls }: { readonly wanted: CapsByKey; readonly readCalls: () => Promise<Calls> },
  ): CacheEntry {
    const known = this.#known.get(id);
    const caps = new Map(wanted);
    for (const [key, limits] of known?.caps ?? []) {
      if (caps.size < KEYS_TOGETHER && !caps.has(key)) caps.set(key, limits);
    }
    const hasCalls = known !== undefined && nowMs < known.callsAskedMs + SECOND_MS;
    const calls = hasCalls ? known.calls : readCalls();
    const entry: CacheEntry = {
      told: Promise.all([peek([...caps.values()].flat()), calls]).then(([peeked, deprecated]) => {
        return { ...peeked, deprecated };
      }),
      askedMs: nowMs,
      askedBeforeMs: known?.askedMs ?? Number.NEGATIVE_INFINITY,
      calls,
      callsAskedMs: hasCalls ? known.callsAskedMs : nowMs,
      caps,
      next: undefined,
    };
    this.#known.set(id, entry);
    return entry;
  }
}
