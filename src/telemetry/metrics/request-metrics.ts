import type { Config } from "../../config/config.ts";
import { deprecatedOperations } from "../../config/queries/deprecations.ts";
import { METHODS } from "../../core/http/route.ts";
import { loggedUnits } from "../../core/meters/meter-charge.ts";
import type { AccessLogEntry } from "../log/access-log-entry.ts";
import {
  type CounterCell,
  type HistogramCell,
  type KeptLabels,
  MetricVec,
  newCounterCell,
  newHistogramCell,
  observeDuration,
} from "./metric-vec.ts";
import { type HistogramName, METRICS, type MetricName } from "./metrics.ts";

/** The most series of a metric, including the overflow: clients must not fill a scrape. */
export const SERIES_MAX = 1_000;
/**
 * One client can fill the series of requests by routes and methods. Alerts need the other labels, so
 * these stay true, each combination in one of the series set aside.
 */
const REQUESTS_KEPT: KeptLabels = { labels: ["env", "code", "source"], cellsMax: 100 };
/** A histogram has a series for each bucket, and +Inf, sum and count. */
const SERIES_BESIDE_BUCKETS = 3;

/** Methods with a label: those that are served, and TRACE, which is refused by name. */
const LABELS: ReadonlySet<string> = new Set([...METHODS, "TRACE"]);

/** Whether the method is counted by its name, not among all others. */
export function isLabelled(method: string): boolean {
  return LABELS.has(method);
}

/**
 * The reason why a new connection is turned away: `limits.connections` are in use, its address has
 * `limits.connectionsPerAddress`, or the memory is full.
 */
export type TurnedAwayReason = (typeof TURNED_AWAY_REASONS)[number];
const TURNED_AWAY_REASONS = ["connections", "address", "memory"] as const;

/** `incomplete`: in force, but not yet in every process. */
const RELOAD_RESULTS = ["success", "incomplete", "failure"] as const;
export type ReloadResultLabel = (typeof RELOAD_RESULTS)[number];

export type MetricTables = ReturnType<typeof newMetricTables>;

/** One table for each metric that is counted here. */
export function newMetricTables() {
  const counts = (name: MetricName, kept?: KeptLabels) => {
    return new MetricVec<CounterCell>(METRICS[name].labels, SERIES_MAX, newCounterCell, kept);
  };
  const times = (name: HistogramName) => {
    const { labels, buckets } = METRICS[name];
    const cellsMax = Math.floor(SERIES_MAX / (buckets.length + SERIES_BESIDE_BUCKETS));
    return new MetricVec<HistogramCell>(labels, cellsMax, () => newHistogramCell(buckets));
  };
  const tables = {
    requests: counts("http_requests_total", REQUESTS_KEPT),
    durations: times("http_request_duration_seconds"),
    routeDurations: times("route_duration_seconds"),
    overheads: times("overhead_duration_seconds"),
    upstreamDurations: times("upstream_duration_seconds"),
    storeCalls: times("store_call_duration_seconds"),
    decisions: counts("decisions_total"),
    charged: counts("charged_total"),
    forwards: counts("forwards_total"),
    failures: counts("auth_failures_total"),
    refusals: counts("refusals_total"),
    deprecated: counts("deprecated_requests_total"),
    observed: counts("observed_refusals_total"),
    bans: counts("bans_total"),
    turnedAway: counts("connections_refused_total"),
    withoutStore: counts("store_unavailable_decisions_total"),
    shareRefusals: counts("share_refusals_total"),
    reloads: counts("config_reloads_total"),
    meterUnits: counts("meter_units_total"),
    metersOverMax: counts("meter_over_max_total"),
  };
  // A counter that starts at 0 shows its first increase; a counter that appears with 1 hides it.
  for (const mode of ["local", "deny", "allow"]) tables.withoutStore.cell(mode);
  for (const why of TURNED_AWAY_REASONS) tables.turnedAway.cell(why);
  tables.shareRefusals.cell();
  tables.metersOverMax.cell();
  for (const result of RELOAD_RESULTS) tables.reloads.cell(result);
  return tables;
}

/**
 * The parts of a request's time that are not the gateway's own, in milliseconds. `upstreamMs` is
 * undefined if it was not to be sent to a backend.
 */
export type RequestTimes = {
  readonly storeMs: number;
  readonly upstreamMs: number | undefined;
};

/** Counts one request, on the hot path. */
export function countRequest(
  tables: MetricTables,
  deprecated: DeprecatedRoutes,
  entry: AccessLogEntry,
  times: RequestTimes,
): void {
  const { env = "none", route = "none", plan = "none", status, source, decision } = entry;
  const method = isLabelled(entry.method) ? entry.method : "OTHER";
  // Without a key anybody can ask for every route by every method.
  const countedRoute = entry.account === undefined ? "none" : route;
  increment(tables.requests.cell(env, countedRoute, method, status, source));
  const seconds = entry.durationMs / 1000;
  observeDuration(tables.durations.cell(env, source), seconds);
  if (status !== SWITCHING_PROTOCOLS) {
    const { storeMs, upstreamMs } = times;
    const own = Math.max(0, entry.durationMs - storeMs - (upstreamMs ?? 0));
    observeDuration(tables.overheads.cell(env), own / 1000);
    // The wait for a connection that never came is the time of neither side.
    if (upstreamMs !== undefined && entry.forwards > 0) {
      const { upstream = "none" } = entry;
      observeDuration(tables.upstreamDurations.cell(env, upstream), upstreamMs / 1000);
      observeDuration(tables.routeDurations.cell(env, route), seconds);
    }
  }
  increment(tables.decisions.cell(env, plan, decision));
  tables.charged.cell(env).value += entry.charged;
  tables.forwards.cell(env).value += entry.forwards;
  if (entry.observed !== undefined) {
    for (const window of entry.observed) increment(tables.observed.cell(env, plan, window));
  }
  if (entry.meters !== undefined) countMeters(tables, entry.meters);
  if (entry.code !== undefined) {
    increment(tables.refusals.cell(env, entry.code));
    if (entry.code === "key_missing" || entry.code === "key_invalid") {
      increment(tables.failures.cell(env, entry.code));
    }
  }
  const operation = deprecated.get(env)?.get(route)?.get(method);
  if (operation !== undefined) increment(tables.deprecated.cell(env, route, operation));
}

function countMeters(tables: MetricTables, meters: NonNullable<AccessLogEntry["meters"]>): void {
  for (const [name, meter] of Object.entries(meters)) {
    const units = loggedUnits(meter);
    tables.meterUnits.cell(name).value += units;
    if (meter.used !== undefined && meter.used > units) increment(tables.metersOverMax.cell());
  }
}

/** The status of a tunnel, which lasts as long as its client likes. */
const SWITCHING_PROTOCOLS = 101;

export function increment(cell: CounterCell): void {
  cell.value += 1;
}

export type Cell = CounterCell | HistogramCell;

/**
 * Empties a cell and returns its numbers, in the order that `addToCell` takes; undefined if it had none.
 */
export function drainCell(cell: Cell): readonly number[] | undefined {
  if ("value" in cell) {
    const { value } = cell;
    cell.value = 0;
    return value === 0 ? undefined : [value];
  }
  const numbers = [cell.sum, ...cell.counts];
  cell.sum = 0;
  cell.counts.fill(0);
  return numbers.every((number) => number === 0) ? undefined : numbers;
}

export function addToCell(cell: Cell, [first = 0, ...counts]: readonly number[]): void {
  if ("value" in cell) {
    cell.value += first;
    return;
  }
  cell.sum += first;
  counts.forEach((more, i) => {
    cell.counts[i] = (cell.counts[i] ?? 0) + more;
  });
}

/** Environment -> template -> method of a request -> method of the operation that will be removed. */
export type DeprecatedRoutes = ReadonlyMap<
  string,
  ReadonlyMap<string, ReadonlyMap<string, string>>
>;

export function deprecatedRoutes(config: Pick<Config, "environments">): DeprecatedRoutes {
  const environments = new Map<string, Map<string, Map<string, string>>>();
  for (const { environment, route, method } of deprecatedOperations(config)) {
    const templates = environments.get(environment) ?? new Map<string, Map<string, string>>();
    environments.set(environment, templates);
    const methods = templates.get(route) ?? new Map<string, string>();
    templates.set(route, methods.set(method, method));
    // HEAD is served by the operation of GET.
    if (method === "GET") methods.set("HEAD", method);
  }
  return environments;
}
