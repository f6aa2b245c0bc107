import { maskUrl } from "../../base/messages.ts";
import type { Log } from "../log/log.ts";
import type { OtlpExporter, TelemetrySettings, TelemetrySource } from "./otlp.ts";
import type { Tracing } from "./tracing.ts";

/** The time that a turned-off exporter has to send the rest. */
const FAREWELL_MS = 3_000;

/**
 * Traces and metrics of this process for an OpenTelemetry collector, while the configuration
 * enables them. The library is loaded when they are first enabled.
 */
export class Telemetry {
  /** Read for each request; undefined while telemetry is off. */
  tracing: Tracing | undefined;
  readonly #log: Log;
  #settings: TelemetrySettings | undefined;
  #exporting: OtlpExporter | undefined;
  /** The exporter of earlier settings, while it still sends what it holds. */
  readonly #closing = new Set<OtlpExporter>();
  #droppedBefore = 0;

  constructor(log: Log) {
    this.#log = log;
  }

  /** The number of spans dropped so far. */
  get dropped(): number {
    let dropped = this.#droppedBefore + (this.#exporting?.dropped() ?? 0);
    for (const { dropped: ofOne } of this.#closing) dropped += ofOne();
    return dropped;
  }

  /** Applies these settings. Spans that are already held are sent to the previous collector. */
  async configure(settings: TelemetrySettings | undefined, source: TelemetrySource): Promise<void> {
    if (JSON.stringify(settings) === JSON.stringify(this.#settings)) return;
    this.#settings = settings;
    const before = this.#exporting;
    this.#exporting = settings && (await open(settings, source, this.#log));
    this.tracing = this.#exporting?.tracing;
    if (before === undefined) return;
    this.#closing.add(before);
    void before.close(FAREWELL_MS).then(() => {
      this.#closing.delete(before);
      this.#droppedBefore += before.dropped();
    });
  }

  /** Sends the held spans and metrics, and gives up after `withinMs`. */
  async close(withinMs: number): Promise<void> {
    this.tracing = undefined;
    await this.#exporting?.close(withinMs);
  }
}

async function open(
  settings: TelemetrySettings,
  source: TelemetrySource,
  log: Log,
): Promise<OtlpExporter> {
  const { openOtlpExporter } = await import("./otlp.ts");
  const otlp = maskUrl(settings.otlp);
  const failing = { traces: false, metrics: false };
  return openOtlpExporter(settings, source, (signal, why) => {
    if (failing[signal] === (why !== undefined)) return;
    failing[signal] = why !== undefined;
    if (failing[signal]) log.warn("telemetry_unsent", { otlp, signal, why });
    else log.info("telemetry_sent", { otlp, signal });
  });
}
