import { setTimeout as pause } from "node:timers/promises";
import { AgingMap } from "../../base/aging-map.ts";
import type { Ban } from "../../core/quota/bans.ts";
import type { QuotaDecision } from "../../core/quota/decide.ts";
import type { Limit } from "../../core/quota/windows.ts";
import type { DeprecatedCall } from "../../telemetry/history/deprecated-calls.ts";

/** Caps of keys, by the id of their part of the account. */
type CapsByKey = ReadonlyMap<string, readonly Limit[]>;

/**
 * The store's answer about one account, with a ban that it has lost. `deprecated` is undefined if it
 * did not tell the calls.
 */
type Standing = {
  readonly decision: QuotaDecision;
  readonly lostBan: Ban | undefined;
  readonly deprecated: readonly DeprecatedCall[] | undefined;
};

/** The store's last answer about one account, and the instants of the last two commands. */
type CacheEntry = {
  readonly told: Promise<Standing>;
  readonly askedMs: number;
  readonly askedBeforeMs: number;
  /** The keys whose caps the answer has. */
  readonly caps: CapsByKey;
  /** The next request, for which keys wait that the answer lacks. */
  next:
    | { readonly caps: Map<string, readonly Limit[]>; readonly told: Promise<Standing> }
    | undefined;
};

type CachedUsage = Standing & { readonly ageMs: number };

/** Asks the store for the account, with these caps of its keys. */
type PeekWithCaps = (caps: readonly Limit[]) => Promise<Standing>;

type AskOptions = {
  /** The caps of the requesting key. */
  readonly caps?: readonly Limit[];
  /** How often the store is asked: once if each time takes two commands. */
  readonly perSecond?: 1 | 2;
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

/** The first instant at which the store may be asked again. */
function dueAfter({ askedMs, askedBeforeMs }: CacheEntry, perSecond: 1 | 2): number {
  return SECOND_MS + (perSecond === 1 ? askedMs : askedBeforeMs);
}

/**
 * Asks the store for the standing of an account, by at most two commands a second for each account;
 * each process does. A client that asks more often gets the last answer and its age
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
    { caps = [], perSecond = 2 }: AskOptions = {},
  ): Promise<CachedUsage> {
    const own = caps[0]?.part?.id;
    const known = this.#known.get(id);
    const dueMs = known === undefined ? elapsedMs : dueAfter(known, perSecond);
    if (known === undefined || elapsedMs >= dueMs) {
      const wanted = new Map([
        ...(known?.next?.caps ?? []),
        ...(own ? [[own, caps] as const] : []),
      ]);
      const renewed = this.#renew(id, elapsedMs, peek, { wanted, perSecond });
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
        return this.#renew(id, nowMs, peek, { wanted, perSecond }).told;
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
    { wanted, perSecond }: { readonly wanted: CapsByKey; readonly perSecond: 1 | 2 },
  ): CacheEntry {
    const known = this.#known.get(id);
    const caps = new Map(wanted);
    for (const [key, limits] of known?.caps ?? []) {
      if (caps.size < KEYS_TOGETHER && !caps.has(key)) caps.set(key, limits);
    }
    const entry: CacheEntry = {
      told: peek([...caps.values()].flat()),
      askedMs: nowMs,
      askedBeforeMs: perSecond === 1 ? nowMs : (known?.askedMs ?? Number.NEGATIVE_INFINITY),
      caps,
      next: undefined,
    };
    this.#known.set(id, entry);
    return entry;
  }
}
