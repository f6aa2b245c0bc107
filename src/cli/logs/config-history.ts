import { type HasReplaced, hasConfigChanged } from "./balance.ts";
import { CLOCK_MS, isNear, type LineSpan, type Period } from "./log-span.ts";

/** Lines of requests have so much of the hash of the configuration. */
const CONFIG_DIGITS = 8;

const ALWAYS = { fromMs: Number.NEGATIVE_INFINITY, toMs: Number.POSITIVE_INFINITY };

type TakenConfig = { readonly name: string; readonly atMs: number };

/** The configurations of the requests in logs, and when gateways took them. */
export class ConfigHistory {
  /** By configuration: the first and the last line of a request. */
  readonly #lines = new Map<string, LineSpan>();
  /** By configuration: each start or reload that took it. */
  readonly #takenMs = new Map<string, number[]>();
  /** By configuration: the hash of what it counts. Lines of older versions have none. */
  readonly #counting = new Map<string, string>();
  #last: TakenConfig | undefined;

  /** Called with the configuration and the instant of each line of a request. */
  line(config: string, atMs: number): void {
    const { firstMs, lastMs } = this.#lines.get(config) ?? { firstMs: atMs, lastMs: atMs };
    const span = { firstMs: Math.min(firstMs, atMs), lastMs: Math.max(lastMs, atMs) };
    this.#lines.set(config, span);
  }

  /** Called with the hash of a configuration and that of what it counts. */
  counts(hash: unknown, counting: unknown): void {
    if (typeof counting === "string") this.#counting.set(nameOf(hash), counting);
  }

  /** Called when a gateway has started with this configuration, or has taken it over. */
  taken(hash: unknown, atMs: number): void {
    const name = nameOf(hash);
    this.#takenMs.set(name, [...(this.#takenMs.get(name) ?? []), atMs]);
    if (this.#last !== undefined && this.#last.atMs > atMs) return;
    this.#last = { name, atMs };
  }

  /**
   * Returns a function that says whether a gateway took the configuration `name` in the period, after
   * a line of `other` and before the first line of `name` at `firstMs`.
   */
  #replacementsIn(period: Period): HasReplaced {
    return (name, other, firstMs) => {
      const otherMs = this.#lines.get(other)?.firstMs ?? Number.POSITIVE_INFINITY;
      return (this.#takenMs.get(name) ?? []).some((atMs) => {
        return isNear(atMs, period) && atMs >= otherMs && atMs <= firstMs + CLOCK_MS;
      });
    };
  }

  /**
   * The same, unless both configurations count the same: then nothing that is missing is due to the
   * change.
   */
  recountsIn(period: Period): HasReplaced {
    const hasReplaced = this.#replacementsIn(period);
    return (name, other, firstMs) => {
      const counting = this.#counting.get(name);
      if (counting !== undefined && counting === this.#counting.get(other)) return false;
      return hasReplaced(name, other, firstMs);
    };
  }

  /** The configuration that came into force last, if that was in the period. */
  lastIn(period: Period): TakenConfig | undefined {
    const last = this.#last;
    return last !== undefined && isNear(last.atMs, period) ? last : undefined;
  }

  /** The configurations of the requests, in the order of the lines. */
  get names(): readonly string[] {
    return [...this.#lines.keys()];
  }

  /** Whether some configuration came after another one, rather than all running side by side. */
  get hasChanged(): boolean {
    return hasConfigChanged(this.#lines, this.#replacementsIn(ALWAYS));
  }
}

function nameOf(hash: unknown): string {
  return String(hash).slice(0, CONFIG_DIGITS);
}
