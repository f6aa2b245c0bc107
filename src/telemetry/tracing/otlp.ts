import type { Agent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { setTimeout as delay } from "node:timers/promises";
import type { Meter, Observable } from "@opentelemetry/api";
import { OTLPMetricExporter } from "@opentelemetry/exporter-metrics-otlp-http";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import {
  detectResources,
  type Resource,
  resourceAttributesEnvDetector,
  resourceFromAttributes,
} from "@opentelemetry/resources";
import { MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import {
  AlwaysOnSampler,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import {
  ATTR_SERVICE_INSTANCE_ID,
  ATTR_SERVICE_NAME,
  ATTR_SERVICE_VERSION,
} from "@opentelemetry/semantic-conventions";
import { Agent as HttpAgent } from "../../base/node-http.ts";
import type { MetricReaders, ScalarMetricName } from "../metrics/metric-readers.ts";
import { METRICS } from "../metrics/metrics.ts";
import { type ExportCallback, exportError, SpanQueue } from "./otlp-queue.ts";
import { createTracing } from "./otlp-spans.ts";
import type { Tracing } from "./tracing.ts";

export type TelemetrySettings = {
  /** The collector's address: OTLP over HTTP. /v1/traces and /v1/metrics are appended to it. */
  readonly otlp: string;
  /** The fraction of the traces begun here that is recorded. */
  readonly sample: number;
  readonly serviceName: string;
};

/** The process that sends telemetry. */
export type TelemetrySource = {
  readonly version: string;
  /** A unique name for each process that ever runs. */
  readonly instance: string;
  /** The number of this process among several. */
  readonly worker?: number | undefined;
  /** The gateway's own metrics; undefined if another process reports them for all. */
  readonly readers?: MetricReaders | undefined;
  /** Brings `readers` up to date. */
  readonly gather?: (() => Promise<void>) | undefined;
};

export type OtlpExporter = {
  readonly tracing: Tracing;
  /** The number of dropped spans. */
  readonly dropped: () => number;
  /** Sends the held spans and metrics, and gives up after `withinMs`. */
  close(withinMs: number): Promise<void>;
};

/** Called with the outcome of each export. `why` is set if the collector did not accept it. */
type SignalCallback = (signal: "traces" | "metrics", why: string | undefined) => void;

const METRICS_MS = 10_000;
/** The time that a collector has to accept a batch. */
const ANSWER_MS_MAX = 10_000;

/**
 * The entry point to OpenTelemetry, which is loaded only if telemetry is on. It sends spans and
 * metrics to a collector, independent of requests. Nothing is registered for the whole process,
 * because a program that embeds a gateway may have telemetry of its own.
 */
export function openOtlpExporter(
  settings: TelemetrySettings,
  source: TelemetrySource,
  onSent: SignalCallback,
): OtlpExporter {
  const resource = resourceOf(settings, source);
  const agent = agentFor(settings);
  const sending = { httpAgentOptions: () => agent, timeoutMillis: ANSWER_MS_MAX };
  const urlFor = (signal: string) => ({
    ...sending,
    url: `${settings.otlp.replace(/\/+$/, "")}/${signal}`,
  });
  const queue = new SpanQueue(new OTLPTraceExporter(urlFor("v1/traces")), (why) => {
    onSent("traces", why);
  });
  const { sample } = settings;
  const root = sample === 1 ? new AlwaysOnSampler() : new TraceIdRatioBasedSampler(sample);
  const tracers = new TracerProvider({
    resource,
    sampler: new ParentBasedSampler({ root }),
    spanProcessors: [queue],
  });
  const reader = new PeriodicExportingMetricReader({
    exporter: new ReportingMetricExporter(urlFor("v1/metrics"), (why) => onSent("metrics", why)),
    exportIntervalMillis: METRICS_MS,
  });
  const meters = new MeterProvider({ resource, readers: [reader] });
  const meter = meters.getMeter("tollgate", source.version);
  if (source.readers !== undefined) exportGatewayMetrics(meter, source.readers, source.gather);
  return {
    tracing: createTracing(tracers.getTracer("tollgate", source.version), meter),
    dropped: () => queue.dropped,
    close: async (withinMs) => {
      const ended = Promise.allSettled([tracers.shutdown(), meters.shutdown()]);
      await Promise.race([ended, delay(withinMs, undefined, { ref: false })]);
      queue.abandon();
      agent.destroy();
    },
  };
}

/** The library reports a failed export only to a handler of the whole process. */
class ReportingMetricExporter extends OTLPMetricExporter {
  readonly #onSent: ExportCallback;

  constructor(
    settings: ConstructorParameters<typeof OTLPMetricExporter>[0],
    onSent: ExportCallback,
  ) {
    super(settings);
    this.#onSent = onSent;
  }

  override export(...[metrics, done]: Parameters<OTLPMetricExporter["export"]>): void {
    super.export(metrics, (result) => {
      this.#onSent(exportError(result));
      done(result);
    });
  }
}

/** The resource, with OTEL_RESOURCE_ATTRIBUTES, which may name an unnamed service. */
function resourceOf({ serviceName }: TelemetrySettings, source: TelemetrySource): Resource {
  const { version, instance, worker } = source;
  const own = resourceFromAttributes({
    [ATTR_SERVICE_NAME]: "tollgate",
    [ATTR_SERVICE_VERSION]: version,
  });
  const given = detectResources({ detectors: [resourceAttributesEnvDetector] });
  const last = resourceFromAttributes({
    [ATTR_SERVICE_INSTANCE_ID]: instance,
    ...(serviceName !== "" && { [ATTR_SERVICE_NAME]: serviceName }),
    ...(worker !== undefined && { "tollgate.worker": worker }),
  });
  return own.merge(given).merge(last);
}

/** One agent for both signals: destroying it ends requests that a collector leaves unanswered. */
function agentFor({ otlp }: TelemetrySettings): Agent {
  const options = { keepAlive: true };
  return otlp.startsWith("https:") ? new HttpsAgent(options) : new HttpAgent(options);
}

/**
 * Exports the gateway's own metrics as /metrics does, under names that a collector turns into the
 * same ones again: `tollgate.decisions` for `tollgate_decisions_total`. They are read when they are
 * sent, and cost nothing while a request is served.
 */
function exportGatewayMetrics(meter: Meter, readers: MetricReaders, gather = async () => {}): void {
  const told = new Map<Observable, NonNullable<MetricReaders[ScalarMetricName]>>();
  for (const name of Object.keys(readers) as ScalarMetricName[]) {
    const read = readers[name];
    if (read !== undefined) told.set(instrumentFor(meter, name), read);
  }
  meter.addBatchObservableCallback(
    async (result) => {
      await gather();
      for (const [instrument, read] of told) {
        for (const [labels, value] of read()) result.observe(instrument, value, labels);
      }
    },
    [...told.keys()],
  );
}

function instrumentFor(meter: Meter, name: ScalarMetricName): Observable {
  const { type, help: description } = METRICS[name];
  const own = `tollgate.${name.replace(/_total$|_seconds$/, "")}`;
  const options = { description, ...(name.endsWith("_seconds") && { unit: "s" }) };
  return type === "counter"
    ? meter.createObservableCounter(own, options)
    : meter.createObservableGauge(own, options);
}
