import type { UsageReport } from "../../core/keys/usage-reports.ts";

/** An entry of the list of usage, and its place there. */
export type RankedUsage = { readonly id: string; readonly report: UsageReport };

/** How long a list is kept after a page of it was asked for. */
const KEPT_MS = 5_000;
/** Pages that are asked for later do not keep it longer: who asks for one of them again and again wants news. */
const WALK_MS = 60_000;

/**
 * The last list that took long to read, kept for the pages that follow its first one, so that a walk
 * through all pages costs one read. It is dropped when no page was asked for in a while, because it
 * may have 100,000 entries, and about a minute after it was read.
 */
export class KeptList<T> {
  #kept: { readonly name: string; readonly list: readonly T[] } | undefined;
  #keptMs = 0;
  #timer: NodeJS.Timeout | undefined;

  /** The list that was kept under this name; undefined if it is there no longer. */
  find(name: string): readonly T[] | undefined {
    if (this.#kept?.name !== name) return undefined;
    if (performance.now() - this.#keptMs < WALK_MS) this.#timer?.refresh();
    return this.#kept.list;
  }

  /** Keeps this list instead of the one before. */
  keep(name: string, list: readonly T[]): void {
    this.drop();
    this.#kept = { name, list };
    this.#keptMs = performance.now();
    this.#timer = setTimeout(() => this.drop(), KEPT_MS).unref();
  }

  drop(): void {
    clearTimeout(this.#timer);
    this.#kept = undefined;
  }
}
