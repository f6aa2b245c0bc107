import type { Config } from "../config/config.ts";
import { METHODS } from "../core/http/methods.ts";
import type { RequestLine } from "./log.ts";
import { METRICS, type MetricName } from "./metrics.ts";
import {
  type Count,
  DURATION_BUCKETS,
  type Durations,
  newCount,
  newDurations,
  observe,
  Tally,
} from "./tally.ts";

/** At most this many series a metric, the overflow included: clients must not fill a scrape. */
export const SERIES_MAX = 1_000;
/** A histogram has a series for each bucket, and +Inf, sum and count. */
const HISTOGRAMS_MAX = Math.floor(SERIES_MAX / (DURATION_BUCKETS.length + 3));

/** Methods that are labels of their own: those that are served, and TRACE, which is refused by name. */
const LABELS: ReadonlySet<string> = new Set([...METHODS, "TRACE"]);

/** Whether the method is counted by its name, and not among all others. */
export function isLabelled(method: string): boolean {
  return LABELS.has(method);
}

export type Tallies = ReturnType<typeof newTallies>;

/** One table for each metric that is counted here. */
export function newTallies() {
  const counts = (name: MetricName) => {
    return new Tally<Count>(METRICS[name].labels, SERIES_MAX, newCount);
  };
  const durationLabels = METRICS.http_request_duration_seconds.labels;
  const tallies = {
    requests: counts("http_requests_total"),
    durations: new Tally<Durations>(durationLabels, HISTOGRAMS_MAX, newDurations),
    decisions: counts("decisions_total"),
    charged: counts("charged_total"),
    forwards: counts("forwards_total"),
    failures: counts("auth_failures_total"),
    refusals: counts("refusals_total"),
    deprecated: counts("deprecated_requests_total"),
    observed: counts("observed_refusals_total"),
    bans: counts("bans_total"),
    withoutStore: counts("store_unavailable_decisions_total"),
    reloads: counts("config_reloads_total"),
  };
  // A counter that starts at 0 shows its first increase; one that appears with 1 hides it.
  for (const mode of ["local", "deny", "allow"]) tallies.withoutStore.cell(mode);
  for (const result of ["success", "failure"]) tallies.reloads.cell(result);
  return tallies;
}

/** Counts one request; the hot path. */
export function count(tallies: Tallies, deprecated: Deprecated, line: RequestLine): void {
  const { env = "none", route = "none", plan = "none", status, source, decision } = line;
  const method = isLabelled(line.method) ? line.method : "OTHER";
  add(tallies.requests.cell(env, route, method, status, source));
  observe(tallies.durations.cell(env, source), line.durationMs / 1000);
  add(tallies.decisions.cell(env, plan, decision));
  tallies.charged.cell(env).value += line.charged;
  tallies.forwards.cell(env).value += line.forwards;
  for (const window of line.observed ?? []) add(tallies.observed.cell(env, plan, window));
  if (line.code !== undefined) add(tallies.refusals.cell(env, line.code));
  if (line.code === "key_missing" || line.code === "key_invalid") {
    add(tallies.failures.cell(env, line.code));
  }
  if (deprecated.get(env)?.get(route)?.has(method)) add(tallies.deprecated.cell(env, route));
}

export function add(cell: Count): void {
  cell.value += 1;
}

export type Cell = Count | Durations;

/** Empties a cell and gives what was in it, in the order that `pour` takes; undefined for nothing. */
export function takeFrom(cell: Cell): readonly number[] | undefined {
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

export function pour(cell: Cell, [first = 0, ...counts]: readonly number[]): void {
  if ("value" in cell) {
    cell.value += first;
    return;
  }
  cell.sum += first;
  counts.forEach((more, i) => {
    cell.counts[i] = (cell.counts[i] ?? 0) + more;
  });
}

/** Environment -> template -> methods of the operations that are going away. */
export type Deprecated = ReadonlyMap<string, ReadonlyMap<string, ReadonlySet<string>>>;

export function deprecatedIn({ environments }: Pick<Config, "environments">): Deprecated {
  return new Map(
    environments.map(({ name, routes }) => {
      const templates = new Map<string, Set<string>>();
      for (const { template, method, lifecycle } of routes.operations ?? []) {
        if (!lifecycle.deprecated) continue;
        const methods = templates.get(template) ?? new Set();
        templates.set(template, methods.add(method));
        // HEAD is answered by the operation of GET.
        if (method === "GET") methods.add("HEAD");
      }
      return [name, templates];
    }),
  );
}
