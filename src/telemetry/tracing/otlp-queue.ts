import { TraceFlags } from "@opentelemetry/api";
import {
  BatchSpanProcessor,
  type ReadableSpan,
  type SpanExporter,
  type SpanProcessor,
} from "@opentelemetry/sdk-trace";

/** Spans that wait or are on their way: about 2 KB each. What comes beyond them is dropped. */
const HELD_MAX = 4_096;
const BATCH_MAX = 512;
const GATHER_MS = 1_000;

/** Hears how each batch fared; `why` is set where the collector did not take it. */
export type ExportCallback = (why: string | undefined) => void;

/**
 * Holds spans until the collector has taken them, in bounded memory, and counts those that are
 * thrown away: the library's own queue bounds what waits, and does not report what it drops.
 */
export class SpanQueue implements SpanProcessor {
  readonly #batches: BatchSpanProcessor;
  #held = 0;
  #dropped = 0;

  constructor(exporter: SpanExporter, onSent: ExportCallback) {
    this.#batches = new BatchSpanProcessor({
      exporter: this.#counting(exporter, onSent),
      maxQueueSize: HELD_MAX,
      maxExportBatchSize: BATCH_MAX,
      scheduledDelayMillis: GATHER_MS,
    });
  }

  /** Spans that were thrown away: too many were held, or the collector took none of a batch. */
  get dropped(): number {
    return this.#dropped;
  }

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    if ((span.spanContext().traceFlags & TraceFlags.SAMPLED) === 0) return;
    if (this.#held >= HELD_MAX) {
      this.#dropped += 1;
      return;
    }
    this.#held += 1;
    this.#batches.onEnd(span);
  }

  forceFlush(): Promise<void> {
    return this.#batches.forceFlush();
  }

  shutdown(): Promise<void> {
    return this.#batches.shutdown();
  }

  /** Nothing is sent any more: what is held now is lost. */
  abandon(): void {
    this.#dropped += this.#held;
    this.#held = 0;
  }

  #counting(exporter: SpanExporter, onSent: ExportCallback): SpanExporter {
    return {
      export: (spans, done) => {
        exporter.export(spans, (result) => {
          const failed = result.code !== 0;
          // Spans that were abandoned before are counted already.
          const mine = Math.min(this.#held, spans.length);
          this.#held -= mine;
          if (failed) this.#dropped += mine;
          onSent(failed ? (result.error?.message ?? "it gave no reason") : undefined);
          done(result);
        });
      },
      shutdown: () => exporter.shutdown(),
      ...(exporter.forceFlush && { forceFlush: () => exporter.forceFlush?.() as Promise<void> }),
    };
  }
}
