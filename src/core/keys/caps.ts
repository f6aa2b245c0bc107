import { DAY_MS } from "../quota/days.ts";
import {
  CAP_NAME,
  CAP_NUMBER_MAX,
  type Limit,
  type LimitPart,
  sortByLength,
  WINDOW_NAMES,
} from "../quota/windows.ts";
import type { Cap, KeyCaps, KeyRecord } from "./records.ts";
import { applyLimitChanges, type LimitChange, windowLimitsError } from "./window-limits.ts";

export type CapChange = LimitChange<Cap["window"]>;

/** The mistake in the given caps, in words; undefined if there is none. */
export function capsError(caps: readonly CapChange[]): string | undefined {
  return windowLimitsError(caps, { verb: "cap", noun: "cap", windows: WINDOW_NAMES });
}

/** The caps, with each cap of `change` in place of the one with the same window. */
export function mergeCaps(before: readonly Cap[], change: readonly CapChange[]): readonly Cap[] {
  return sortByLength(applyLimitChanges(before, change));
}

/** How long a number is not given again after its caps were dropped: more than any window. */
export const DROPPED_CAPS_MS = 367 * DAY_MS;

/** Whether counts may live under the number of these caps. */
export function holdsNumber({ droppedMs }: KeyCaps, nowMs: number): boolean {
  return droppedMs === undefined || nowMs < droppedMs + DROPPED_CAPS_MS;
}

/**
 * Numbers for new caps of an account under which none of its keys is counted or was in the longest
 * window; undefined if fewer than `count` are left. Numbers of keys that ended are not given again.
 */
export function freeCapNumbers(
  keys: readonly KeyRecord[],
  account: string,
  { count, nowMs }: { readonly count: number; readonly nowMs: number },
): readonly number[] | undefined {
  const taken = new Set<number>();
  for (const { account: owner, caps } of keys) {
    if (owner === account && caps !== undefined && holdsNumber(caps, nowMs)) taken.add(caps.number);
  }
  return freeNumbers(taken, count);
}

/** Numbers for new caps that are not taken; undefined if fewer than `count` are left. */
export function freeNumbers(
  taken: ReadonlySet<number>,
  count: number,
): readonly number[] | undefined {
  const next = Math.max(-1, ...taken) + 1;
  const free: number[] = [];
  for (let i = 0; i <= CAP_NUMBER_MAX && free.length < count; i++) {
    const number = (next + i) % (CAP_NUMBER_MAX + 1);
    if (!taken.has(number)) free.push(number);
  }
  return free.length < count ? undefined : free;
}

/** The caps of an account: all their windows, and the keys that share each number. */
export type AccountCaps = {
  readonly limits: Limit[];
  /** By the id of the part, with those whose caps were dropped. */
  readonly keys: Map<string, KeyRecord[]>;
};

/** The caps of all keys, by account. Keys that share a number share its counts. */
export function capsByAccount(keys: readonly KeyRecord[]): ReadonlyMap<string, AccountCaps> {
  const found = new Map<string, AccountCaps>();
  for (const key of keys) {
    if (key.caps === undefined) continue;
    const caps: AccountCaps = found.get(key.account) ?? { limits: [], keys: new Map() };
    found.set(key.account, caps);
    const id = partId(key.caps);
    const sharing = caps.keys.get(id) ?? [];
    for (const cap of capLimits(key)) {
      if (!sharing.some((other) => hasCap(other, cap.window))) caps.limits.push(cap);
    }
    caps.keys.set(id, [...sharing, key]);
  }
  return found;
}

/** A gateway hears of a cap that was dropped within this time. */
const HEARD_MS = 60_000;

/**
 * The ids of the keys that a window of their caps counts from `fromMs`. `formerKeys`: those that share
 * its number and lack it now, as their caps were changed, so it may have counted them.
 */
export function keysOfWindow(
  sharing: readonly KeyRecord[],
  window: Limit["window"],
  fromMs: number,
): { readonly keys: readonly string[]; readonly formerKeys?: readonly string[] } {
  const keys = sharing.filter((key) => hasCap(key, window));
  const former = sharing.filter((key) => {
    const droppedMs = key.caps?.droppedMs ?? Number.POSITIVE_INFINITY;
    return !hasCap(key, window) && droppedMs + HEARD_MS >= fromMs;
  });
  const idsOf = (some: readonly KeyRecord[]) => some.map(({ id }) => id);
  return { keys: idsOf(keys), ...(former.length > 0 && { formerKeys: idsOf(former) }) };
}

function hasCap({ caps }: KeyRecord, window: Limit["window"]): boolean {
  return caps?.limits.some((cap) => cap.window === window) ?? false;
}

/** The caps of a key as limits of a decision; empty if it has none. */
export function capLimits({ id, caps }: Pick<KeyRecord, "id" | "caps">): readonly Limit[] {
  if (caps === undefined) return [];
  const part = { id: partId(caps), name: CAP_NAME, key: id };
  return caps.limits.map(({ window, limit }) => ({ window, limit, part }));
}

/**
 * The parts under which caps are counted, each once: those of the key with this id, otherwise those
 * of all keys of the account. Dropped caps are among them, because their counts are kept.
 */
export function capParts(
  keys: readonly KeyRecord[],
  { account, id }: { readonly account: string; readonly id: string },
): readonly LimitPart[] {
  const parts = new Map<string, LimitPart>();
  for (const key of keys) {
    if (key.account !== account || key.caps === undefined) continue;
    if (id !== account && id !== key.id) continue;
    parts.set(partId(key.caps), { id: partId(key.caps), name: CAP_NAME });
  }
  return [...parts.values()];
}

/** The ids of the keys of an account whose caps have a counter; empty for any other counter. */
export function keysOfCounter(keys: readonly KeyRecord[], counter: string): readonly string[] {
  return keys.flatMap(({ id, caps }) => {
    return caps !== undefined && counter.startsWith(`${partId(caps)}.`) ? [id] : [];
  });
}

function partId({ number }: KeyCaps): string {
  return `@${number}`;
}
