import type { z } from "zod";
import { quoteAddress } from "../../base/messages.ts";
import { type ConfigPath, formatPath, type Mistake, makeMistake, pathKey } from "./mistake.ts";
import type { Tree } from "./tree.ts";

/** A file's tree with its mistakes. Every mistake is noted; none ends the reading. */
export class Findings {
  readonly mistakes: Mistake[] = [];
  readonly warnings: Mistake[] = [];
  /** Why a file that the file names could not be read for now; undefined if all could be. */
  unread: string | undefined;
  readonly file: string;
  readonly tree: Tree;

  constructor(file: string, tree: Tree) {
    this.file = file;
    this.tree = tree;
  }

  /** A mistake at the value. */
  mistake(path: ConfigPath, message: string): void {
    this.mistakes.push(makeMistake(this.file, this.tree.positionOf(path), message));
  }

  /** A mistake at the key: its name is wrong, or the key must not be there. */
  mistakeAtKey(path: ConfigPath, message: string): void {
    this.mistakes.push(makeMistake(this.file, this.tree.placeOfKey(path), message));
  }

  /** Whether the file has a value there and does not leave it to a default. */
  isGiven(path: ConfigPath): boolean {
    return valueAt(this.tree.value, path) !== undefined;
  }

  /** The keys of a map, or the places in a list, that the file has there. */
  keysAt(path: ConfigPath): readonly string[] {
    return Object.keys(valueAt(this.tree.value, path) ?? {});
  }

  /** Whether the file says `off` there, as YAML of either version writes it. */
  isOff(path: ConfigPath): boolean {
    const value = valueAt(this.tree.value, path);
    return value === "off" || value === false;
  }

  warning(path: ConfigPath, message: string): void {
    this.warnings.push(makeMistake(this.file, this.tree.placeOfKey(path), message));
  }

  /** "Cannot read PATH as WANTED: the value found; the remedy". */
  wrongValue(path: ConfigPath, wanted: string, hint?: string): void {
    const advice = hint === undefined ? "" : `; ${hint}`;
    this.mistake(
      path,
      `Cannot read ${formatPath(path)} as ${wanted}: ${this.describeValue(path)}${advice}`,
    );
  }

  unknownKey(path: ConfigPath, known: readonly string[]): void {
    const name = String(path.at(-1));
    const near = nearestKey(name, known);
    const glued = known.find((key) => name.startsWith(`${key}:`));
    const advice =
      glued !== undefined
        ? `write a space after the colon of ${glued}`
        : near === undefined
          ? `the keys here are ${known.join(", ")}`
          : `did you mean ${near}?`;
    this.mistakeAtKey(path, `Cannot use ${formatPath(path)}: there is no such key; ${advice}`);
  }

  /** A value for a sentence; *** if it comes from the environment. */
  shown(path: ConfigPath, value: string): string {
    return this.tree.isSubstituted(path) ? "***" : value;
  }

  /** The value in words; never a value that may be a secret. */
  describeValue(path: ConfigPath): string {
    const value = valueAt(this.tree.value, path);
    if (value === undefined) return "there is none; add it";
    if (value === null || value === "") return "it is empty; give it a value or remove it";
    if (Array.isArray(value))
      return value.length === 0 ? "the list is empty" : "the value is a list";
    if (typeof value === "object") {
      const keys = Object.keys(value);
      return keys.length === 0 ? "the map is empty" : `the value is a map with ${listed(keys)}`;
    }
    if (isSecret(path)) return "the value is not shown, as it may hold a secret";
    if (this.tree.isSubstituted(path)) {
      return "the value is not shown, as it comes from the environment";
    }
    return `the value is ${typeof value === "string" ? quoteAddress(value) : String(value)}`;
  }
}

/** Notes the issues that zod found, with their places. `start` is the place of the parsed value. */
export function noteIssues(
  findings: Findings,
  issues: readonly z.core.$ZodIssue[],
  start: ConfigPath,
  knownAt: (path: ConfigPath) => readonly string[],
): void {
  const seen = new Set<string>();
  const all = issues.flatMap(meant);
  const pathsWith = (wanted: string) => {
    return new Set(
      all.flatMap(({ code, path }) => (code === wanted ? [pathKey(path as ConfigPath)] : [])),
    );
  };
  const misspelt = pathsWith("unrecognized_keys");
  const mistyped = pathsWith("invalid_type");
  for (const issue of all) {
    const path = [...start, ...(issue.path as ConfigPath)];
    if (findings.tree.isBroken(path)) continue;
    // A key that the map seems to lack may be present but misspelt.
    if (issue.code === "custom" && misspelt.has(pathKey(issue.path as ConfigPath))) continue;
    // zod compares the length of a text in place of a list, too.
    const isLength = issue.code === "too_big" || issue.code === "too_small";
    if (isLength && mistyped.has(pathKey(issue.path as ConfigPath))) continue;
    const once = `${pathKey(path)} ${issue.code === "unrecognized_keys" ? issue.keys : issue.message}`;
    if (seen.has(once)) continue;
    seen.add(once);
    if (issue.code === "unrecognized_keys") {
      for (const key of issue.keys) findings.unknownKey([...path, key], knownAt(path));
    } else if (issue.code === "invalid_key") {
      const wanted = issue.issues[0]?.message ?? issue.message;
      const key = quoteAddress(String(path.at(-1)));
      findings.mistakeAtKey(
        path,
        `Cannot use ${key} as a name in ${formatPath(path.slice(0, -1))}: it must be ${wanted}`,
      );
    } else {
      const hint = issue.code === "custom" ? issue.params?.hint : undefined;
      findings.wrongValue(path, issue.message, typeof hint === "string" ? hint : undefined);
    }
  }
}

/**
 * If a value may have several forms, the mistakes of the form that was meant: the one that accepts
 * a value of this type at all. If none does, the union's own words list the forms.
 */
function meant(issue: z.core.$ZodIssue): z.core.$ZodIssue[] {
  if (issue.code !== "invalid_union") return [issue];
  const fitting = issue.errors.filter((inner) => !inner.some(isOfAnotherKind));
  const [inner] = fitting;
  if (inner === undefined || fitting.length > 1) return [issue];
  return inner.flatMap((one) => meant({ ...one, path: [...issue.path, ...one.path] }));
}

function isOfAnotherKind({ code, path }: z.core.$ZodIssue): boolean {
  return path.length === 0 && (code === "invalid_type" || code === "invalid_value");
}

const LISTED_MAX = 5;

function listed(keys: readonly string[]): string {
  const shown = keys.slice(0, LISTED_MAX).map((key) => formatPath([key]));
  return keys.length > LISTED_MAX ? `${shown.join(", ")} and more` : shown.join(", ");
}

function isSecret(path: ConfigPath): boolean {
  return SECRETS.includes(formatPath(path));
}

/**
 * Services that receive events or telemetry may have a token in the path or query of their URL. The
 * address of the store may stand at `keys`.
 */
const SECRETS = [
  ...["store", "keys", "admin.token", "events", "events.secret", "events.url"],
  ...["telemetry", "telemetry.otlp"],
];

function valueAt(value: unknown, path: ConfigPath): unknown {
  let inner = value;
  for (const part of path) {
    if (typeof inner !== "object" || inner === null || !Object.hasOwn(inner, part))
      return undefined;
    inner = (inner as Record<string | number, unknown>)[part];
  }
  return inner;
}

/** The known key that was probably meant: at most one letter in `part` of its letters differs. */
export function nearestKey(name: string, known: readonly string[], part = 3): string | undefined {
  const near = known
    .map((key) => ({ key, distance: distance(name.toLowerCase(), key.toLowerCase()) }))
    .filter(({ key, distance }) => distance <= Math.max(1, Math.floor(key.length / part)))
    .sort((a, b) => a.distance - b.distance);
  return near[0]?.key;
}

/** The edits from one word to the other; swapped neighbours are one. Long words are skipped. */
function distance(one: string, other: string): number {
  if (one.length > 64) return one.length;
  let before: number[] = [];
  let row = Array.from({ length: other.length + 1 }, (_, i) => i);
  for (let i = 1; i <= one.length; i++) {
    const next = [i];
    for (let j = 1; j <= other.length; j++) {
      const replaced = at(row, j - 1) + (one[i - 1] === other[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && one[i - 1] === other[j - 2] && one[i - 2] === other[j - 1];
      const swapped = isSwap ? at(before, j - 2) + 1 : replaced;
      next.push(Math.min(replaced, swapped, at(row, j) + 1, at(next, j - 1) + 1));
    }
    before = row;
    row = next;
  }
  return at(row, other.length);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? 0;
}
