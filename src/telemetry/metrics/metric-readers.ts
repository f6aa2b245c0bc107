import type { CounterCell, LabelValue, MetricVec } from "./metric-vec.ts";
import type { MetricName } from "./metrics.ts";
import type { MetricsRecorder } from "./metrics-recorder.ts";
import { SERIES_MAX } from "./request-metrics.ts";

/** Functions that are called at each scrape. None of them may throw, block or do I/O. */
export type MetricSources = {
  readonly version: string;
  readonly inFlight: () => number;
  /** Connections of clients. */
  readonly connections: () => number;
  /** WebSocket tunnels, which are also in flight. */
  readonly tunnels: () => number;
  readonly upstreams: () => Iterable<{
    readonly environment: string;
    readonly origin: string;
    readonly up: boolean;
  }>;
  readonly storeUp: () => boolean;
  /** Whether the store may evict counters to free memory. */
  readonly storeUnsafePolicy: () => boolean;
  /** Whether the store may have more than one master, or none. */
  readonly storeSplit: () => boolean;
  /** Records that disappeared from the store although no command deleted them. */
  readonly keysLost: () => number;
  /** Commands sent to the store since the start. */
  readonly storeCommands: () => number;
  /** The number of units. */
  readonly chargesUncertain: () => number;
  readonly chargesLost: () => number;
  /** Log lines that were dropped because the pipe was stuck. */
  readonly logDropped: () => number;
  /** Events that no webhook accepted. */
  readonly eventsDropped: () => number;
  /** Spans that no collector accepted. */
  readonly telemetryDropped: () => number;
  /** Present if several processes serve: their number, and how often one was replaced. */
  readonly workers?: () => { readonly serving: number; readonly restarts: number };
};

type Sample = readonly [labels: Record<string, LabelValue>, value: number];
export type MetricReader = () => Iterable<Sample>;
export type ScalarMetricName = Exclude<MetricName, "http_request_duration_seconds">;

export type MetricReaders = Readonly<Record<ScalarMetricName, MetricReader | undefined>>;

/** The source of each metric's values; undefined for a metric that this process does not have. */
export function metricReaders(
  watched: MetricSources,
  counting: Pick<MetricsRecorder, "tallies" | "configuration">,
): MetricReaders {
  const { tallies, configuration } = counting;
  const { workers } = watched;
  return {
    http_requests_total: counted(tallies.requests),
    http_requests_in_flight: one(watched.inFlight),
    decisions_total: counted(tallies.decisions),
    charged_total: counted(tallies.charged),
    forwards_total: counted(tallies.forwards),
    auth_failures_total: counted(tallies.failures),
    refusals_total: counted(tallies.refusals),
    deprecated_requests_total: counted(tallies.deprecated),
    observed_refusals_total: counted(tallies.observed),
    bans_total: counted(tallies.bans),
    connections_open: one(watched.connections),
    connections_refused_total: counted(tallies.turnedAway),
    tunnels_open: one(watched.tunnels),
    upstream_up: () => upstreamsUp(watched),
    store_up: one(() => (watched.storeUp() ? 1 : 0)),
    store_unavailable_decisions_total: counted(tallies.withoutStore),
    share_refusals_total: counted(tallies.shareRefusals),
    store_commands_total: one(watched.storeCommands),
    charges_uncertain_total: one(watched.chargesUncertain),
    charges_lost_total: one(watched.chargesLost),
    store_unsafe_policy: one(() => (watched.storeUnsafePolicy() ? 1 : 0)),
    store_split: one(() => (watched.storeSplit() ? 1 : 0)),
    keys_lost: one(watched.keysLost),
    log_dropped_total: one(watched.logDropped),
    events_dropped_total: one(watched.eventsDropped),
    telemetry_dropped_total: one(watched.telemetryDropped),
    config_reloads_total: counted(tallies.reloads),
    config_last_reload_success_timestamp_seconds: one(() => configuration().configuredMs / 1000),
    config_info: () => [[{ hash: configuration().hash }, 1]],
    build_info: () => [[{ version: watched.version }, 1]],
    workers: workers && one(() => workers().serving),
    worker_restarts_total: workers && one(() => workers().restarts),
  };
}

function one(value: () => number): MetricReader {
  return () => [[{}, value()]];
}

function counted(tally: MetricVec<CounterCell>): MetricReader {
  return function* () {
    for (const [labels, { value }] of tally.entries()) yield [labels, value];
  };
}

function* upstreamsUp({ upstreams }: MetricSources): Generator<Sample> {
  let left = SERIES_MAX;
  for (const { environment, origin, up } of upstreams()) {
    if (left-- === 0) return;
    yield [{ env: environment, upstream: new URL(origin).origin }, up ? 1 : 0];
  }
}
