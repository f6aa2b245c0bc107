import type { ReadinessChecks } from "../readiness.ts";
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
  readonly upstreams: () => Iterable<{
    readonly environment: string;
    readonly backend?: string | undefined;
    readonly origin: string;
    readonly up: boolean;
    /** The reason for which it is down. */
    readonly why?: string | undefined;
  }>;
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
  /** Log lines that were dropped because the pipe was stuck. */
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
    meter_units_total: counted(tallies.meterUnits),
    meter_over_max_total: counted(tallies.metersOverMax),
    store_commands_total: one(watched.storeCommands),
    charges_uncertain_total: one(watched.chargesUncertain),
    charges_lost_total: one(watched.chargesLost),
    charges_owed: () => [[{ gateway: watched.gateway }, watched.chargesOwed()]],
    store_unsafe_policy: one(() => (watched.storeUnsafePolicy() ? 1 : 0)),
    store_split: one(() => (watched.storeSplit() ? 1 : 0)),
    keys: one(watched.keys),
    accounts: one(watched.accounts),
    keys_damaged: one(watched.keysDamaged),
    keys_unreadable_total: one(watched.keysUnreadable),
    keys_older_total: one(watched.keysOlder),
    state_file_unwritten_total: one(watched.stateFileUnwritten),
    keys_lost: one(watched.keysLost),
    ready: () => Object.entries(watched.checks()).map(([check, { ok }]) => [{ check }, ok ? 1 : 0]),
    certificate_expiry_timestamp_seconds: () => certificateEnds(watched),
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

/** The counts of each histogram. */
export function histogramTables(
  tallies: MetricTables,
): Readonly<Record<HistogramName, MetricVec<HistogramCell>>> {
  return {
    http_request_duration_seconds: tallies.durations,
    route_duration_seconds: tallies.routeDurations,
    overhead_duration_seconds: tallies.overheads,
    upstream_duration_seconds: tallies.upstreamDurations,
    store_call_duration_seconds: tallies.storeCalls,
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
