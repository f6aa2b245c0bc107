import { randomBytes } from "node:crypto";
import { parseJson } from "../../../base/parse-json.ts";

/**
 * The last changes of the records in Redis, as a text that is kept next to them: which version
 * became which, and the names of the fields that changed. A reader that knows one of these versions
 * reads those fields instead of all. The script that writes the records writes the log too, so its
 * entries are true. If it does not go back far enough, all records are read.
 */
export type ChangeLog = string;

type Change = readonly [from: string, to: string, names: readonly string[]];

/** The most characters. A thousand new keys with accounts take 36,000; the oldest are dropped. */
const LENGTH_MAX = 40_960;

/** The log with one more change. It starts again if all changed, for which `names` is undefined. */
export function appendChange(
  changes: ChangeLog,
  { from, to, names }: { from: string; to: string; names: readonly string[] | undefined },
): ChangeLog {
  if (names === undefined) return "[]";
  const all = [...read(changes), [from, to, names] as const];
  let text = JSON.stringify(all);
  while (text.length > LENGTH_MAX) {
    all.shift();
    text = JSON.stringify(all);
  }
  return text;
}

/** The fields that changed after `version`; undefined if the log does not say. */
export function changedSince(version: string, changes: ChangeLog): readonly string[] | undefined {
  const all = read(changes);
  const first = all.findIndex(([from]) => from === version);
  if (first === -1) return undefined;
  const later = all.slice(first);
  const linked = later.every(([from], i) => i === 0 || later[i - 1]?.[1] === from);
  return linked ? [...new Set(later.flatMap(([, , names]) => names))] : undefined;
}

/** The last version in the log; "" if there is none. */
export function lastVersion(changes: ChangeLog): string {
  return read(changes).at(-1)?.[1] ?? "";
}

/** Empty if it cannot be read: the log is an optimization and nothing depends on it. */
function read(text: ChangeLog): readonly Change[] {
  const found = parseJson(text);
  return Array.isArray(found) && found.every(isChange) ? found : [];
}

function isChange(value: unknown): value is Change {
  if (!Array.isArray(value)) return false;
  const [from, to, names] = value as unknown[];
  return (
    typeof from === "string" &&
    typeof to === "string" &&
    Array.isArray(names) &&
    names.every((name) => typeof name === "string")
  );
}

/** `<number>.<random>`: the number grows with each change, and no version comes twice. */
export function versionAfter(version: string): string {
  return `${numberOfVersion(version) + 1}.${randomBytes(6).toString("hex")}`;
}

/**
 * Whether the records of `version` lack changes that `known` had: they are of an earlier time (a
 * backup), or another master wrote them, which had not received those changes (a failover). False
 * if the log does not go back far enough to tell.
 */
export function isOlder(
  { version, changes }: { readonly version: string; readonly changes: ChangeLog },
  known: string,
): boolean {
  if (known === "" || version === known) return false;
  const number = numberOfVersion(known);
  if (numberOfVersion(version) <= number) return true;
  if (lastVersion(changes) !== version) return false;
  const past = new Set<string>();
  for (const [from, to] of read(changes)) past.add(from).add(to);
  return !past.has(known) && [...past].some((each) => numberOfVersion(each) === number);
}

/** Whether records at this version became those of the snapshot, by changes that the log has. */
export function isFromVersion(
  { version, changes }: { readonly version: string; readonly changes: ChangeLog },
  earlier: string,
): boolean {
  return version === earlier || changedSince(earlier, changes) !== undefined;
}

/** The number of a version; 0 if there is none, or if it cannot be read. */
function numberOfVersion(version: string): number {
  const number = Number.parseInt(version, 10);
  return Number.isSafeInteger(number) ? number : 0;
}
