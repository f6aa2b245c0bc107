import type { Config } from "../config/config.ts";
import {
  add,
  type Cell,
  count,
  type Deprecated,
  deprecatedIn,
  newTallies,
  pour,
  type Tallies,
  takeFrom,
} from "./counts.ts";
import type { RequestLine } from "./log.ts";
import type { LabelValue } from "./tally.ts";

/** Counts. Labels hold names from the configuration and words of ours: no tokens, no raw paths. */
export type Counting = {
  /** Once for each request line. Costs about a tenth of a microsecond. */
  request(line: RequestLine): void;
  /** A ban was imposed on an account of this environment. */
  banned(environment: string): void;
  /** A request was decided without the store (docs/reference/store.md#away). */
  decidedWithoutStore(mode: "local" | "deny" | "allow"): void;
  /** This configuration is in force from now on: at the start, and after each reload that worked. */
  configured(config: Pick<Config, "hash" | "environments">, nowMs: number): void;
  reloaded(result: "success" | "failure"): void;
  readonly tallies: Tallies;
  /** The configuration in force, and since when in Unix milliseconds. */
  configuration(): { readonly hash: string; readonly configuredMs: number };
};

/**
 * Counts as plain data: by metric, the labels of each cell and its numbers. Labels are undefined
 * for the cell that holds all that came after a table was full.
 */
export type Counted = Readonly<Partial<Record<keyof Tallies, readonly CountedCell[]>>>;
type CountedCell = readonly [labels: readonly LabelValue[] | undefined, numbers: readonly number[]];

export function createCounting(): Counting {
  const tallies = newTallies();
  let deprecated: Deprecated = new Map();
  let configuration = { hash: "", configuredMs: 0 };
  return {
    request: (line) => count(tallies, deprecated, line),
    banned: (environment) => add(tallies.bans.cell(environment)),
    decidedWithoutStore: (mode) => add(tallies.withoutStore.cell(mode)),
    configured: (config, nowMs) => {
      configuration = { hash: config.hash, configuredMs: nowMs };
      deprecated = deprecatedIn(config);
      // A counter that appears with its first ban would hide it.
      for (const { name } of config.environments) tallies.bans.cell(name);
    },
    reloaded: (result) => add(tallies.reloads.cell(result)),
    tallies,
    configuration: () => configuration,
  };
}

/**
 * Takes out what was counted since the last time, for another process to add to its own. Reloads
 * stay: one that reaches many processes is one, and counted where it was ordered.
 */
export function takeCounted({ tallies }: Pick<Counting, "tallies">): Counted {
  const counted: Partial<Record<keyof Tallies, CountedCell[]>> = {};
  for (const name of Object.keys(tallies) as (keyof Tallies)[]) {
    if (name === "reloads") continue;
    const cells: CountedCell[] = [];
    for (const [labels, cell] of tallies[name].rows()) {
      const numbers = takeFrom(cell);
      if (numbers !== undefined) cells.push([labels, numbers]);
    }
    if (cells.length > 0) counted[name] = cells;
  }
  return counted;
}

/** Adds what another process has taken out: sums only grow, whatever becomes of that process. */
export function addCounted({ tallies }: Pick<Counting, "tallies">, counted: Counted): void {
  for (const [name, cells] of Object.entries(counted) as [keyof Tallies, CountedCell[]][]) {
    const tally = tallies[name];
    for (const [labels, numbers] of cells) {
      const cell: Cell = labels === undefined ? tally.overflow() : tally.cell(...labels);
      pour(cell, numbers);
    }
  }
}
