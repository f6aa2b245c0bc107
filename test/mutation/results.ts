import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";

const RESULTS = "docs/evidence/mutation.json";

/** The mutants of one file, as it was when they were tried. */
export type FileResult = {
  /** The first digits of the SHA-256 of its text. */
  readonly hash: string;
  readonly mutants: number;
  /** Those that were tried, by their index: `0-3,7`. */
  readonly tried: string;
  /** How many of the noticed made tests go on without an end. */
  readonly late: number;
  /** Those that no test noticed, by their index, as people read them. */
  readonly alive: Readonly<Record<string, string>>;
};

export type Results = {
  /** All mutants of a room, tried or not. */
  readonly rooms: Readonly<Record<string, number>>;
  readonly files: Readonly<Record<string, FileResult>>;
};

export type Verdict = "noticed" | "late" | "alive";

export function readResults(): Results {
  return JSON.parse(readFileSync(RESULTS, "utf8")) as Results;
}

export function writeResults({ rooms, files }: Results): void {
  const sorted = Object.fromEntries(Object.entries(files).sort(([a], [b]) => (a < b ? -1 : 1)));
  writeFileSync(RESULTS, `${JSON.stringify({ rooms, files: sorted }, undefined, 2)}\n`);
}

export function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}

/** "core" for src/core/quota/decide.ts and its tests. */
export function roomOf(file: string): string {
  return file.split("/")[1] as string;
}

/** The results of a file with this text: nothing where it was measured with another. */
export function knownOf(results: Results, file: string, hash: string, mutants: number): FileResult {
  const known = results.files[file];
  return known?.hash === hash ? known : { hash, mutants, tried: "", late: 0, alive: {} };
}

/** `known` with one mutant more, or with another verdict on one of the living. */
export function withVerdict(
  known: FileResult,
  { index, told }: { readonly index: number; readonly told: string },
  verdict: Verdict,
): FileResult {
  const tried = indexesOf(known.tried).add(index);
  const { [String(index)]: _, ...others } = known.alive;
  const alive = verdict === "alive" ? { ...others, [index]: told } : others;
  const late = known.late + (verdict === "late" ? 1 : 0);
  return { ...known, tried: textOf(tried), late, alive };
}

/** `0-3,7` as numbers. */
export function indexesOf(text: string): Set<number> {
  const parts = text === "" ? [] : text.split(",");
  const ranges = parts.map((part) => part.split("-").map(Number) as [number, number?]);
  return new Set(
    ranges.flatMap(([from, to = from]) =>
      Array.from({ length: to - from + 1 }, (_, i) => from + i),
    ),
  );
}

function textOf(indexes: ReadonlySet<number>): string {
  const ranges: [number, number][] = [];
  for (const index of [...indexes].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last?.[1] === index - 1) last[1] = index;
    else ranges.push([index, index]);
  }
  return ranges.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join();
}

/** The sum of a room, or of all files that are given. */
export type Score = {
  readonly tried: number;
  readonly noticed: number;
  readonly late: number;
  /** In whole and tenths. */
  readonly percent: number;
};

export function scoreOf(files: readonly FileResult[]): Score {
  const sum = (count: (file: FileResult) => number) =>
    files.reduce((all, one) => all + count(one), 0);
  const tried = sum((file) => indexesOf(file.tried).size);
  const noticed = tried - sum(({ alive }) => Object.keys(alive).length);
  const late = sum((file) => file.late);
  return { tried, noticed, late, percent: tried === 0 ? 0 : (100 * noticed) / tried };
}

/** Between which percentages the share of all lies, 19 times of 20 (Wilson 1927), if `of` were drawn. */
export function likely(noticed: number, of: number): readonly [low: number, high: number] {
  const z = 1.96;
  const share = noticed / of;
  const middle = share + z ** 2 / (2 * of);
  const spread = z * Math.sqrt((share * (1 - share)) / of + z ** 2 / (4 * of ** 2));
  const percent = (value: number) => (100 * value) / (1 + z ** 2 / of);
  return [percent(middle - spread), percent(middle + spread)];
}

/** The files whose text is another one now, or that are gone. */
export function changedSince(
  results: Results,
  textNow: (file: string) => string | undefined,
): string[] {
  return Object.entries(results.files)
    .filter(([file, { hash }]) => {
      const text = textNow(file);
      return text === undefined || hashOf(text) !== hash;
    })
    .map(([file]) => file);
}

/** `count` of `list`, by chance; the same for the same seed (mulberry32, of the public domain). */
export function drawn<T>(list: readonly T[], count: number, seed: number): T[] {
  const rest = [...list];
  let state = seed;
  const chance = () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const out: T[] = [];
  while (out.length < count && rest.length > 0) {
    out.push(...rest.splice(Math.floor(chance() * rest.length), 1));
  }
  return out;
}
