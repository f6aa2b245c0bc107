import { setTimeout as pause } from "node:timers/promises";
import { AgingMap } from "../../base/aging-map.ts";
import type { QuotaDecision } from "../../core/quota/decide.ts";
import type { Limit } from "../../core/quota/windows.ts";

/** Caps of keys, by the id of their part of the account. */
type CapsByKey = ReadonlyMap<string, readonly Limit[]>;

/** The store's last answer about one account, when it was asked for, and the answer before it. */
type CacheEntry = {
  readonly told: Promise<QuotaDecision>;
  readonly askedMs: number;
  readonly askedBeforeMs: number;
  /** The keys whose caps the answer has. */
  readonly caps: CapsByKey;
  /** The next request, for which keys wait that the answer lacks. */
  next:
    | { readonly caps: Map<string, readonly Limit[]>; readonly told: Promise<QuotaDecision> }
    | undefined;
};

type CachedUsage = { readonly decision: QuotaDecision; readonly ageMs: number };

/** Asks the store for the account, with these caps of its keys. */
type PeekWithCaps = (caps: readonly Limit[]) => Promise<QuotaDecision>;

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

/**
 * Asks the store for the standing of an account, at most twice a second for each account; each
 * process does. A client that asks more often gets the last answer and its age
 * (docs/reference/plans.md#standing). The keys with caps of an account are asked for together: one
 * that the last answer lacks waits for the next.
 */
export class UsageReportCache {
  readonly #known = new AgingMap<CacheEntry>(KEPT);

  /**
   * `elapsedMs` is on a monotonic clock. `caps` are those of the requesting key. Rejects as `peek`
   * does.
   */
  async ask(
    id: string,
    elapsedMs: number,
    peek: PeekWithCaps,
    caps: readonly Limit[] = [],
  ): Promise<CachedUsage> {
    const own = caps[0]?.part?.id;
    const known = this.#known.get(id);
    if (known === undefined || elapsedMs - known.askedBeforeMs >= SECOND_MS) {
      const wanted = new Map([
        ...(known?.next?.caps ?? []),
        ...(own ? [[own, caps] as const] : []),
      ]);
      return { decision: await this.#renew(id, elapsedMs, peek, wanted).told, ageMs: 0 };
    }
    if (own === undefined || isSame(known.caps.get(own), caps)) {
      return { decision: await known.told, ageMs: elapsedMs - known.askedMs };
    }
    if (known.next === undefined) {
      const wanted = new Map<string, readonly Limit[]>();
      const dueMs = known.askedBeforeMs + SECOND_MS;
      // A timer drops fractions of a millisecond, and would be early.
      const told = pause(Math.ceil(dueMs - elapsedMs), undefined, { ref: false }).then(() => {
        const newest = this.#known.get(id);
        const isNewer = newest !== undefined && newest !== known;
        return isNewer ? newest.told : this.#renew(id, dueMs, peek, wanted).told;
      });
      known.next = { caps: wanted, told };
    }
    known.next.caps.set(own, caps);
    return { decision: await known.next.told, ageMs: 0 };
  }

  /** Asks for these keys, and for those of the last answer as far as they fit. */
  #renew(id: string, nowMs: number, peek: PeekWithCaps, wanted: CapsByKey): CacheEntry {
    const known = this.#known.get(id);
    const caps = new Map(wanted);
    for (const [key, limits] of known?.caps ?? []) {
      if (caps.size < KEYS_TOGETHER && !caps.has(key)) caps.set(key, limits);
    }
    const entry: CacheEntry = {
      told: peek([...caps.values()].flat()),
      askedMs: nowMs,
      askedBeforeMs: known?.askedMs ?? Number.NEGATIVE_INFINITY,
      caps,
      next: undefined,
    };
    this.#known.set(id, entry);
    return entry;
  }
}
