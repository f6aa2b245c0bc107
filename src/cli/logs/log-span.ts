import { formatInstant } from "../framework/table.ts";

/** A period up to, but not including, `toMs`, in Unix milliseconds of the store's clock. */
export type Period = { readonly fromMs: number; readonly toMs: number };

/** The first and the last instant of lines, in Unix milliseconds. */
export type LineSpan = { readonly firstMs: number; readonly lastMs: number };

/** The clocks of gateways and stores differ by less than this. */
export const CLOCK_MS = 10_000;

/** Whether the instant of a line may be in the period, as clocks differ. */
export function isNear(atMs: number, { fromMs, toMs }: Period): boolean {
  return atMs >= fromMs - CLOCK_MS && atMs < toMs + CLOCK_MS;
}

/**
 * An account that was created at most this long before the logs had no time for earlier charges.
 */
const AS_OLD_MS = 10_000;
/** Logs whose last line is older than this are those of another time. */
const SILENT_MS = 60_000;

/** The first and the last instant of logs. */
export class LogSpan {
  #firstMs = Number.POSITIVE_INFINITY;
  #lastMs = Number.NEGATIVE_INFINITY;

  /** Called with the instant of each line. */
  line(atMs: number): void {
    if (atMs < this.#firstMs) this.#firstMs = atMs;
    if (atMs > this.#lastMs) this.#lastMs = atMs;
  }

  /** Undefined if there are no lines. */
  get span(): LineSpan | undefined {
    return this.#firstMs > this.#lastMs
      ? undefined
      : { firstMs: this.#firstMs, lastMs: this.#lastMs };
  }

  /**
   * Why the logs do not cover a period that is over, or that runs until `toMs`; undefined if they
   * do. They cover the whole life of an account that was `created` at their start or later.
   */
  gapIn({ fromMs, toMs }: Period, created: number | null, runs: boolean): string | undefined {
    const { span } = this;
    if (span === undefined) return "the logs have no line";
    const isBornThere = created !== null && created + AS_OLD_MS >= span.firstMs;
    const begins = span.firstMs <= fromMs || isBornThere;
    const ends = runs ? span.lastMs + SILENT_MS >= toMs : span.lastMs >= toMs;
    if (begins && ends) return undefined;
    const [first, last] = [span.firstMs, span.lastMs].map((ms) => formatInstant(ms / 1_000));
    const begin = span.firstMs >= toMs ? "begin after" : "begin inside";
    const end = span.lastMs < fromMs ? "end before" : "end inside";
    return `the logs ${begins ? end : begin} it: their first line is of ${first}, their last of ${last}`;
  }
}
