import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";
import { type Counting, createCounting } from "../telemetry/counting.ts";
import { SERIES_MAX } from "../telemetry/counts.ts";
import { METRICS, type MetricName } from "../telemetry/metrics.ts";
import {
  type Count,
  DURATION_BUCKETS,
  type Durations,
  type LabelValue,
  type Tally,
} from "../telemetry/tally.ts";

/** Facts that others know, asked at each scrape. None of them may throw, block or do I/O. */
export type Watched = {
  readonly version: string;
  readonly inFlight: () => number;
  /** WebSocket tunnels, which are in flight too. */
  readonly tunnels: () => number;
  readonly upstreams: () => Iterable<{
    readonly environment: string;
    readonly origin: string;
    readonly up: boolean;
  }>;
  readonly storeUp: () => boolean;
  /** Whether the store may throw counters away to make room. */
  readonly storeUnsafePolicy: () => boolean;
  /** Commands sent to the store since the start. */
  readonly storeCommands: () => number;
  /** Units. */
  readonly chargesUncertain: () => number;
  readonly chargesLost: () => number;
  /** Log lines that were thrown away because the pipe was stuck. */
  readonly logDropped: () => number;
  /** Events that no webhook took. */
  readonly eventsDropped: () => number;
  /** Present when several processes serve: their number, and how often one was replaced. */
  readonly workers?: () => { readonly serving: number; readonly restarts: number };
};

export type Metrics = Counting & {
  /** Prometheus text, version 0.0.4. */
  render(): Promise<string>;
};

export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

/**
 * The one door to prom-client. It renders; the counting is our own, in Tally: its counters and
 * histogram cost 1.3 µs a request, ours 0.13 (docs/decisions).
 */
export function createMetrics(watched: Watched, counting = createCounting()): Metrics {
  const registry = new Registry();
  const ofProcess = processRegistry();
  const reads = readsOf(watched, counting);
  for (const name of Object.keys(reads) as PlainName[]) {
    const read = reads[name];
    if (read !== undefined) describe(registry, name, read);
  }
  new Histograms(registry, counting.tallies.durations);

  return {
    ...counting,
    render: async () => {
      const texts = await Promise.all([registry.metrics(), ofProcess.metrics()]);
      // prom-client writes "Nan" where the format says NaN (an event loop without a sample).
      return texts.join("\n").replaceAll(" Nan\n", " NaN\n");
    },
  };
}

type Sample = readonly [labels: Record<string, LabelValue>, value: number];
type Read = () => Iterable<Sample>;
type PlainName = Exclude<MetricName, "http_request_duration_seconds">;

/** The source of each metric's values; undefined for a metric that this process does not have. */
function readsOf(watched: Watched, counting: Counting): Record<PlainName, Read | undefined> {
  const { tallies, configuration } = counting;
  const { workers } = watched;
  return {
    http_requests_total: counted(tallies.requests),
    http_requests_in_flight: one(watched.inFlight),
    decisions_total: counted(tallies.decisions),
    charged_total: counted(tallies.charged),
    forwards_total: counted(tallies.forwards),
    auth_failures_total: counted(tallies.failures),
    deprecated_requests_total: counted(tallies.deprecated),
    observed_refusals_total: counted(tallies.observed),
    bans_total: counted(tallies.bans),
    tunnels_open: one(watched.tunnels),
    upstream_up: () => upstreamsUp(watched),
    store_up: one(() => (watched.storeUp() ? 1 : 0)),
    store_unavailable_decisions_total: counted(tallies.withoutStore),
    store_commands_total: one(watched.storeCommands),
    charges_uncertain_total: one(watched.chargesUncertain),
    charges_lost_total: one(watched.chargesLost),
    store_unsafe_policy: one(() => (watched.storeUnsafePolicy() ? 1 : 0)),
    log_dropped_total: one(watched.logDropped),
    events_dropped_total: one(watched.eventsDropped),
    config_reloads_total: counted(tallies.reloads),
    config_last_reload_success_timestamp_seconds: one(() => configuration().configuredMs / 1000),
    config_info: () => [[{ hash: configuration().hash }, 1]],
    build_info: () => [[{ version: watched.version }, 1]],
    workers: workers && one(() => workers().serving),
    worker_restarts_total: workers && one(() => workers().restarts),
  };
}

function one(value: () => number): Read {
  return () => [[{}, value()]];
}

function counted(tally: Tally<Count>): Read {
  return function* () {
    for (const [labels, { value }] of tally.entries()) yield [labels, value];
  };
}

function* upstreamsUp({ upstreams }: Watched): Generator<Sample> {
  let left = SERIES_MAX;
  for (const { environment, origin, up } of upstreams()) {
    if (left-- === 0) return;
    yield [{ env: environment, upstream: new URL(origin).origin }, up ? 1 : 0];
  }
}

/** Registers a counter or a gauge by its row in telemetry/metrics.ts. */
function describe(registry: Registry, name: PlainName, read: Read): void {
  const { type, help, labels } = METRICS[name];
  const common = { name: `tollgate_${name}`, help, labelNames: labels, registers: [registry] };
  if (type === "counter") {
    new Counter<string>({
      ...common,
      collect() {
        this.reset();
        for (const [values, value] of read()) this.inc(values, value);
      },
    });
  } else {
    new Gauge<string>({
      ...common,
      collect() {
        this.reset();
        for (const [values, value] of read()) this.set(values, value);
      },
    });
  }
}

/**
 * prom-client's own histogram has no way to take buckets that were counted elsewhere. A registry
 * renders whatever `get` of a metric tells, so this tells a histogram.
 */
class Histograms extends Gauge {
  readonly #tally: Tally<Durations>;

  constructor(registry: Registry, tally: Tally<Durations>) {
    const { help } = METRICS.http_request_duration_seconds;
    super({ name: "tollgate_http_request_duration_seconds", help, registers: [registry] });
    this.#tally = tally;
  }

  override async get() {
    const values = [...this.#tally.entries()].flatMap(([labels, { counts, sum }]) => {
      const told = (suffix: string, value: number, le?: LabelValue) => {
        const all = le === undefined ? labels : { ...labels, le };
        return {
          metricName: `tollgate_http_request_duration_seconds_${suffix}`,
          labels: all,
          value,
        };
      };
      let below = 0;
      const buckets = counts.map((inside, i) => {
        below += inside;
        return told("bucket", below, DURATION_BUCKETS[i] ?? "+Inf");
      });
      return [...buckets, told("sum", sum), told("count", below)];
    });
    return Object.assign(await super.get(), { type: "histogram", values }) as never;
  }
}

/** The process is one, and so are its metrics: its observers are set up once and never pile up. */
let processMetrics: Registry | undefined;

function processRegistry(): Registry {
  if (processMetrics !== undefined) return processMetrics;
  processMetrics = new Registry();
  collectDefaultMetrics({ register: processMetrics });
  // Gauges named _total, which promtool refuses; each has a twin by type that stays.
  for (const kind of ["handles", "requests", "resources"]) {
    processMetrics.removeSingleMetric(`nodejs_active_${kind}_total`);
  }
  return processMetrics;
}
