import { isDeepStrictEqual } from "node:util";
import { type AccountRecord, isSuspended, type KeyRecord } from "../../../core/keys/records.ts";
import { limitsByWindow } from "../../../core/keys/window-limits.ts";
import { roundUpToSeconds } from "../../../core/quota/whole-seconds.ts";

/** The part of a record that is compared. */
type Part<T> = (record: T) => unknown;

/**
 * Names the parts in which two records of one account differ at `nowMs` (Unix milliseconds): plan,
 * state, own limits, metadata and anchor. The order of limits makes no difference.
 */
export function accountDifferences(
  one: AccountRecord,
  other: AccountRecord,
  nowMs: number,
): string[] {
  return differences(one, other, {
    plan: ({ plan }) => plan,
    state: (of) => isSuspended(of, nowMs) && secondOf(of.suspended?.untilMs),
    limits: ({ limits }) => limitsByWindow(limits),
    metadata: ({ meta }) => meta,
    anchor: ({ calendar }) => calendar,
  });
}

/** Instants within one second are the same, because an export with `--json` has whole seconds. */
function secondOf(instantMs: number | undefined): number | undefined {
  return instantMs === undefined ? undefined : roundUpToSeconds(instantMs);
}

/** The same of a key: its scopes, networks and caps. Its ends are not compared. */
export function keyDifferences(one: KeyRecord, other: KeyRecord): string[] {
  return differences(one, other, {
    scopes: ({ scopes }) => new Set(scopes),
    from: ({ from }) => new Set(from),
    caps: ({ caps }) => limitsByWindow(caps?.limits ?? []),
  });
}

function differences<T>(one: T, other: T, parts: Readonly<Record<string, Part<T>>>): string[] {
  return Object.entries(parts)
    .filter(([, part]) => !isDeepStrictEqual(part(one), part(other)))
    .map(([name]) => name);
}

/** Whether two records have the same content. */
export function isEqual<T>(
  a: T | undefined,
  b: T | undefined,
  encode: (record: T) => string,
): boolean {
  if (a === undefined || b === undefined) return a === b;
  return encode(a) === encode(b);
}
