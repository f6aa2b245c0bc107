import {
  BatchSpanProcessor,
  type ReadableSpan,
  type SpanExporter,
  type SpanProcessor,
} from "@opentelemetry/sdk-trace";

/** The most spans that wait or are being sent, at about 2 KB each. Further spans are dropped. */
const HELD_MAX = 4_096;
const BATCH_MAX = 512;
const GATHER_MS = 1_000;

/** Called with the outcome of each batch. `why` is set if the collector did not accept it. */
export type ExportCallback = (why: string | undefined) => void;

/** Why the collector did not accept an export; undefined if it did. */
export function exportError(result: { code: number; error?: Error }): string | undefined {
  return result.code === 0 ? undefined : (result.error?.message ?? "it gave no reason");
}

/**
 * Holds spans until the collector has accepted them, in bounded memory, and counts dropped spans.
 * The library's own queue is bounded, but does not report the spans that it drops.
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

  /** The number of dropped spans: too many were held, or the collector accepted none of a batch. */
  get dropped(): number {
    return this.#dropped;
  }

  onStart(): void {}

  onEnd(span: ReadableSpan): void {
    if (this.#held >= HELD_MAX) {
      this.#dropped += 1;
      return;
    }
    this.#held += 1;
    this.#batches.onEnd(span);
  }

  /** Part of the interface: an end calls `shutdown`, which sends what is held. */
  async forceFlush(): Promise<void> {}

  shutdown(): Promise<void> {
    return this.#batches.shutdown();
  }

  /** Stops sending. Spans that are held now are lost. */
  abandon(): void {
    this.#dropped += this.#held;
    this.#held = 0;
  }

  #counting(exporter: SpanExporter, onSent: ExportCallback): SpanExporter {
    return {
      export: (spans, done) => {
        exporter.export(spans, (result) => {
          const why = exportError(result);
          // Spans that were abandoned earlier have been counted already.
          const mine = Math.min(this.#held, spans.length);
          this.#held -= mine;
          if (why !== undefined) this.#dropped += mine;
          onSent(why);
          done(result);
        });
      },
      shutdown: () => exporter.shutdown(),
    };
  }
}
