import type { Config } from "../../config/config.ts";
import type { AccessLogEntry } from "../log/access-log-entry.ts";
import { type LabelValue, observeDuration } from "./metric-vec.ts";
import {
  addToCell,
  type Cell,
  countRequest,
  type DeprecatedRoutes,
  deprecatedRoutes,
  drainCell,
  increment,
  type MetricTables,
  newMetricTables,
  type ReloadResultLabel,
  type RequestTimes,
  type TurnedAwayReason,
} from "./request-metrics.ts";

/**
 * Counts events. Labels hold names from the configuration and fixed words: no tokens, no raw paths.
 */
export type MetricsRecorder = {
  /** Called once for each access log entry. Costs about a tenth of a microsecond. */
  request(entry: AccessLogEntry, times: RequestTimes): void;
  /** Called when a call to the store has its answer, or has failed. */
  storeCall(tookMs: number): void;
  /** Called when an account of this environment was banned. */
  banned(environment: string): void;
  /** Called when a new connection of a client was closed at once. */
  turnedAway(why: TurnedAwayReason): void;
  /** Called when a request was decided without the store (docs/reference/store.md#away). */
  decidedWithoutStore(mode: "local" | "deny" | "allow"): void;
  /** Called when a request was refused only because this gateway's share of a limit is used up. */
  shareRefused(): void;
  /** Called when a configuration takes effect: at the start, and after each successful reload. */
  configured(config: ConfiguredParts, nowMs: number): void;
  reloaded(result: ReloadResultLabel): void;
  readonly tables: MetricTables;
  /** The configuration in force, and since when, in Unix milliseconds. */
  configuration(): { readonly hash: string; readonly configuredMs: number };
};

type ConfiguredParts = Pick<Config, "hash" | "environments" | "metrics">;

/**
 * Counts as plain data: for each metric, the labels of each cell and its numbers. Labels are
 * undefined for the cell that holds all values after a table was full.
 */
export type CountsDelta = Readonly<Partial<Record<keyof MetricTables, readonly CountedCell[]>>>;
type CountedCell = readonly [labels: readonly LabelValue[] | undefined, numbers: readonly number[]];

export function createMetricsRecorder(): MetricsRecorder {
  const tables = newMetricTables();
  let deprecated: DeprecatedRoutes = new Map();
  let configuration = { hash: "", configuredMs: 0 };
  const storeCalls = tables.storeCalls.cell();
  return {
    request: (entry, times) => countRequest(tables, deprecated, entry, times),
    storeCall: (tookMs) => observeDuration(storeCalls, tookMs / 1000),
    banned: (environment) => increment(tables.bans.cell(environment)),
    turnedAway: (why) => increment(tables.turnedAway.cell(why)),
    decidedWithoutStore: (mode) => increment(tables.withoutStore.cell(mode)),
    shareRefused: () => increment(tables.shareRefusals.cell()),
    configured: (config, nowMs) => {
      configuration = { hash: config.hash, configuredMs: nowMs };
      deprecated = deprecatedRoutes(config);
      tables.routeDurations.cellsMax = config.metrics.routes + 1;
      // A counter that appears with its first ban would hide that ban.
      for (const { name } of config.environments) tables.bans.cell(name);
    },
    reloaded: (result) => increment(tables.reloads.cell(result)),
    tables,
    configuration: () => configuration,
  };
}

/**
 * Removes and returns the counts since the last call, for another process to add to its own.
 * Reloads stay: a reload that reaches many processes is one reload, counted by the process that
 * ordered it.
 */
export function takeCounts({ tables }: Pick<MetricsRecorder, "tables">): CountsDelta {
  const counted: Partial<Record<keyof MetricTables, CountedCell[]>> = {};
  for (const name of Object.keys(tables) as (keyof MetricTables)[]) {
    if (name === "reloads") continue;
    const cells: CountedCell[] = [];
    for (const [labels, cell] of tables[name].rows()) {
      const numbers = drainCell(cell);
      if (numbers !== undefined) cells.push([labels, numbers]);
    }
    if (cells.length > 0) counted[name] = cells;
  }
  return counted;
}

/** Adds the counts that another process took: sums only grow, even if that process ends. */
export function addCounts({ tables }: Pick<MetricsRecorder, "tables">, counted: CountsDelta): void {
  for (const [name, cells] of Object.entries(counted) as [keyof MetricTables, CountedCell[]][]) {
    const table = tables[name];
    for (const [labels, numbers] of cells) {
      const cell: Cell = labels === undefined ? table.overflow() : table.cell(...labels);
      addToCell(cell, numbers);
    }
  }
}
