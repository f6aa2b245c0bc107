import { setImmediate as breathe } from "node:timers/promises";
import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";
import {
  histogramTables,
  type MetricReader,
  type MetricSources,
  metricReaders,
  type ScalarMetricName,
} from "../telemetry/metrics/metric-readers.ts";
import type { HistogramCell, LabelValue, MetricVec } from "../telemetry/metrics/metric-vec.ts";
import { type HistogramName, METRICS } from "../telemetry/metrics/metrics.ts";
import {
  createMetricsRecorder,
  type MetricsRecorder,
} from "../telemetry/metrics/metrics-recorder.ts";

export type PrometheusMetrics = MetricsRecorder & {
  /** Prometheus text, version 0.0.4. */
  render(): Promise<string>;
};

export const METRICS_CONTENT_TYPE = Registry.PROMETHEUS_CONTENT_TYPE;

/**
 * The only module that uses prom-client. prom-client renders, and MetricVec counts: prom-client's
 * counters and histogram cost 1.3 µs a request, those of MetricVec 0.13 (docs/decisions).
 */
export function createPrometheusMetrics(
  metricSources: MetricSources,
  metrics = createMetricsRecorder(),
): PrometheusMetrics {
  const registry = new Registry();
  const ofProcess = processRegistry();
  const reads = metricReaders(metricSources, metrics);
  for (const name of Object.keys(reads) as ScalarMetricName[]) {
    const read = reads[name];
    if (read !== undefined) describe(registry, name, read);
  }
  for (const [name, table] of Object.entries(histogramTables(metrics.tables))) {
    new Histograms(registry, name as HistogramName, table);
  }

  return {
    ...metrics,
    render: async () => {
      const text = (await textOf(registry)) + (await textOf(ofProcess));
      // prom-client writes "Nan", but the format requires NaN (an event loop without a sample).
      return text.replaceAll(" Nan\n", " NaN\n");
    },
  };
}

/** Yields to the event loop after each metric, because a metric may have a thousand series. */
async function textOf(registry: Registry): Promise<string> {
  let text = "";
  for (const { name } of registry.getMetricsAsArray()) {
    text += `${await registry.getSingleMetricAsString(name)}\n`;
    await breathe();
  }
  return text;
}

/** Registers a counter or a gauge by its row in telemetry/metrics/metrics.ts. */
function describe(registry: Registry, name: ScalarMetricName, read: MetricReader): void {
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
 * prom-client's own histogram cannot take buckets that were counted elsewhere. A registry renders
 * anything that `get` of a metric returns, so this class returns a histogram.
 */
class Histograms extends Gauge {
  readonly #name: string;
  readonly #table: MetricVec<HistogramCell>;

  constructor(registry: Registry, row: HistogramName, table: MetricVec<HistogramCell>) {
    const name = `tollgate_${row}`;
    super({ name, help: METRICS[row].help, registers: [registry] });
    this.#name = name;
    this.#table = table;
  }

  override async get() {
    const values = [...this.#table.entries()].flatMap(([labels, { bounds, counts, sum }]) => {
      const told = (suffix: string, value: number, le?: LabelValue) => {
        const all = le === undefined ? labels : { ...labels, le };
        return { metricName: `${this.#name}_${suffix}`, labels: all, value };
      };
      let below = 0;
      const buckets = counts.map((inside, i) => {
        below += inside;
        return told("bucket", below, bounds[i] ?? "+Inf");
      });
      return [...buckets, told("sum", sum), told("count", below)];
    });
    return Object.assign(await super.get(), { type: "histogram", values }) as never;
  }
}

/**
 * The metrics of the process. Their observers are set up once, because there is only one process.
 */
let processMetrics: Registry | undefined;

function processRegistry(): Registry {
  if (processMetrics !== undefined) return processMetrics;
  processMetrics = new Registry();
  collectDefaultMetrics({ register: processMetrics });
  // prom-client's gauges named _total, which promtool refuses. Each has a twin by type that stays.
  for (const kind of ["handles", "requests", "resources"]) {
    processMetrics.removeSingleMetric(`nodejs_active_${kind}_total`);
  }
  return processMetrics;
}
