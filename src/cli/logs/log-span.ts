import { formatInstant } from "../framework/table.ts";
import type { Period } from "./incidents.ts";

/** An account that is hardly older than the logs had no time to be charged before. */
const AS_OLD_MS = 10_000;
/** Logs that end so long before now, without a line, are those of another time. */
const SILENT_MS = 60_000;

/** From where to where logs reach. */
export class LogSpan {
  #firstMs = Number.POSITIVE_INFINITY;
  #lastMs = Number.NEGATIVE_INFINITY;

  /** Called with the instant of each line. */
  line(atMs: number): void {
    if (atMs < this.#firstMs) this.#firstMs = atMs;
    if (atMs > this.#lastMs) this.#lastMs = atMs;
  }

  /** The first and the last line, in Unix milliseconds; undefined without any. */
  get span(): { readonly firstMs: number; readonly lastMs: number } | undefined {
    return this.#firstMs > this.#lastMs
      ? undefined
      : { firstMs: this.#firstMs, lastMs: this.#lastMs };
  }

  /**
   * Why the logs lack a part of a period that is over, or runs until `toMs`; undefined if they have all
   * of it. The life of an account that was `created` when they begin, or later, is all in them.
   */
  gapIn({ fromMs, toMs }: Period, created: number | null, runs: boolean): string | undefined {
    const { span } = this;
    if (span === undefined) return "the logs have no line";
    const isBornThere = created !== null && created + AS_OLD_MS >= span.firstMs;
    const begins = span.firstMs <= fromMs || isBornThere;
    const ends = runs ? span.lastMs + SILENT_MS >= toMs : span.lastMs >= toMs;
    if (begins && ends) return undefined;
    const [first, last] = [span.firstMs, span.lastMs].map((ms) => formatInstant(ms / 1_000));
    return `the logs ${begins ? "end" : "begin"} inside it: their first line is of ${first}, their last of ${last}`;
  }
}
