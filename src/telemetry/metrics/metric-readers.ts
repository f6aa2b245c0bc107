import type { ReadinessChecks, UpstreamState } from "../readiness.ts";
import type { CounterCell, HistogramCell, LabelValue, MetricVec } from "./metric-vec.ts";
import type { HistogramName, MetricName } from "./metrics.ts";
import type { MetricsRecorder } from "./metrics-recorder.ts";
import { type MetricTables, SERIES_MAX } from "./request-metrics.ts";

/** Functions that are called at each scrape. None of them may throw, block or do I/O. */
export type MetricSources = {
  readonly version: string;
  /** The name of the gateway in its events. */
  readonly gateway: string;
  readonly checks: () => ReadinessChecks;
  readonly inFlight: () => number;
  /** Connections of clients. */
  readonly connections: () => number;
  /** WebSocket tunnels, which are also in flight. */
  readonly tunnels: () => number;
  readonly upstreams: () => Iterable<UpstreamState>;
  readonly storeUp: () => boolean;
  /** Whether the store may evict counters to free memory. */
  readonly storeUnsafePolicy: () => boolean;
  /** Whether the store may have more than one master, or none. */
  readonly storeSplit: () => boolean;
  /** Records of keys and of accounts. */
  readonly keys: () => number;
  readonly accounts: () => number;
  readonly keysDamaged: () => number;
  /** How often the records could not be read, and how often a shared store had older ones. */
  readonly keysUnreadable: () => number;
  readonly keysOlder: () => number;
  /** How often the state file could not be written. */
  readonly stateFileUnwritten: () => number;
  /** When each certificate ends, in Unix milliseconds. */
  readonly certificates: () => Iterable<CertificateEnd>;
  /** Records that disappeared from the store although no command deleted them. */
  readonly keysLost: () => number;
  /** Commands sent to the store since the start. */
  readonly storeCommands: () => number;
  /** The number of units. */
  readonly chargesUncertain: () => number;
  readonly chargesLost: () => number;
  readonly chargesOwed: () => number;
  /** Log lines that were dropped because the log could not be written. */
  readonly logDropped: () => number;
  /** Events that no webhook accepted. */
  readonly eventsDropped: () => number;
  /** Spans that no collector accepted. */
  readonly telemetryDropped: () => number;
  /** Present if several processes serve: their number, and how often one was replaced. */
  readonly workers?: () => { readonly serving: number; readonly restarts: number };
};

/** `certificate` says what it is for. */
export type CertificateEnd = {
  readonly environment: string;
  readonly certificate: "listener" | "upstream_ca" | "upstream_client";
  readonly endsMs: number;
};

type Sample = readonly [labels: Record<string, LabelValue>, value: number];
export type MetricReader = () => Iterable<Sample>;
export type ScalarMetricName = Exclude<MetricName, HistogramName>;

export type MetricReaders = Readonly<Record<ScalarMetricName, MetricReader | undefined>>;

/** The source of each metric's values; undefined for a metric that this process does not have. */
export function metricReaders(
  metricSources: MetricSources,
  metrics: Pick<MetricsRecorder, "tables" | "configuration">,
): MetricReaders {
  const { tables, configuration } = metrics;
  const { workers } = metricSources;
  return {
    http_requests_total: counted(tables.requests),
    http_requests_in_flight: one(metricSources.inFlight),
    decisions_total: counted(tables.decisions),
    charged_total: counted(tables.charged),
    forwards_total: counted(tables.forwards),
    auth_failures_total: counted(tables.failures),
    refusals_total: counted(tables.refusals),
    deprecated_requests_total: counted(tables.deprecated),
    observed_refusals_total: counted(tables.observed),
    bans_total: counted(tables.bans),
    connections_open: one(metricSources.connections),
    connections_refused_total: counted(tables.turnedAway),
    tunnels_open: one(metricSources.tunnels),
    upstream_up: () => upstreamsUp(metricSources),
    store_up: one(() => (metricSources.storeUp() ? 1 : 0)),
    store_unavailable_decisions_total: counted(tables.withoutStore),
    share_refusals_total: counted(tables.shareRefusals),
    meter_units_total: counted(tables.meterUnits),
    meter_over_max_total: counted(tables.metersOverMax),
    store_commands_total: one(metricSources.storeCommands),
    charges_uncertain_total: one(metricSources.chargesUncertain),
    charges_lost_total: one(metricSources.chargesLost),
    charges_owed: () => [[{ gateway: metricSources.gateway }, metricSources.chargesOwed()]],
    store_unsafe_policy: one(() => (metricSources.storeUnsafePolicy() ? 1 : 0)),
    store_split: one(() => (metricSources.storeSplit() ? 1 : 0)),
    keys: one(metricSources.keys),
    accounts: one(metricSources.accounts),
    keys_damaged: one(metricSources.keysDamaged),
    keys_unreadable_total: one(metricSources.keysUnreadable),
    keys_older_total: one(metricSources.keysOlder),
    state_file_unwritten_total: one(metricSources.stateFileUnwritten),
    keys_lost: one(metricSources.keysLost),
    ready: () =>
      Object.entries(metricSources.checks()).map(([check, { ok }]) => [{ check }, ok ? 1 : 0]),
    certificate_expiry_timestamp_seconds: () => certificateEnds(metricSources),
    log_dropped_total: one(metricSources.logDropped),
    events_dropped_total: one(metricSources.eventsDropped),
    telemetry_dropped_total: one(metricSources.telemetryDropped),
    config_reloads_total: counted(tables.reloads),
    config_last_reload_success_timestamp_seconds: one(() => configuration().configuredMs / 1000),
    config_info: () => [[{ hash: configuration().hash }, 1]],
    build_info: () => [[{ version: metricSources.version }, 1]],
    workers: workers && one(() => workers().serving),
    worker_restarts_total: workers && one(() => workers().restarts),
  };
}

/** The counts of each histogram. */
export function histogramTables(
  tables: MetricTables,
): Readonly<Record<HistogramName, MetricVec<HistogramCell>>> {
  return {
    http_request_duration_seconds: tables.durations,
    route_duration_seconds: tables.routeDurations,
    overhead_duration_seconds: tables.overheads,
    upstream_duration_seconds: tables.upstreamDurations,
    store_call_duration_seconds: tables.storeCalls,
  };
}

function one(value: () => number): MetricReader {
  return () => [[{}, value()]];
}

function counted(table: MetricVec<CounterCell>): MetricReader {
  return function* () {
    for (const [labels, { value }] of table.entries()) yield [labels, value];
  };
}

/** A sample for each upstream: 0 where one of the backends that have it has it out of service. */
function upstreamsUp({ upstreams }: MetricSources): Sample[] {
  const ups = new Map<string, Sample>();
  for (const { environment: env, origin, up } of upstreams()) {
    const upstream = new URL(origin).origin;
    const id = `${env} ${upstream}`;
    const isUp = up && ups.get(id)?.[1] !== 0;
    ups.set(id, [{ env, upstream }, isUp ? 1 : 0]);
  }
  return [...ups.values()].slice(0, SERIES_MAX);
}

/** A sample for each set of labels: the certificate that ends first. */
function certificateEnds({ certificates }: MetricSources): Sample[] {
  const ends = new Map<string, Sample>();
  for (const { environment: env, certificate, endsMs } of certificates()) {
    const id = `${env} ${certificate}`;
    const seconds = Math.floor(endsMs / 1000);
    if ((ends.get(id)?.[1] ?? Number.POSITIVE_INFINITY) > seconds) {
      ends.set(id, [{ env, certificate }, seconds]);
    }
  }
  return [...ends.values()].slice(0, SERIES_MAX);
}
