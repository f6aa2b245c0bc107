import type { Verdict } from "../../core/quota/decide.ts";

/** The store's last answers about one account, and when it was asked: the two last times. */
type Recent = {
  lastMs: number;
  beforeMs: number;
  told: Promise<Verdict>;
  toldMs: number;
};

export type RecentAnswer = { readonly verdict: Verdict; readonly ageMs: number };

const SECOND_MS = 1_000;
/** So many accounts are kept at least once there are more, and twice as many at most. */
const KEPT = 5_000;

/**
 * Asks the store where an account stands, at most twice a second for each account: whoever asks
 * more often gets the last answer and its age (docs/reference/plans.md#standing).
 */
export class RecentStandings {
  #young = new Map<string, Recent>();
  #old = new Map<string, Recent>();

  /** `elapsedMs` is of a monotonic clock. Rejects as `peek` does. */
  async ask(id: string, elapsedMs: number, peek: () => Promise<Verdict>): Promise<RecentAnswer> {
    const known = this.#young.get(id) ?? this.#old.get(id);
    if (known !== undefined && elapsedMs - known.beforeMs < SECOND_MS) {
      return { verdict: await known.told, ageMs: elapsedMs - known.toldMs };
    }
    const recent: Recent = {
      lastMs: elapsedMs,
      beforeMs: known?.lastMs ?? Number.NEGATIVE_INFINITY,
      told: peek(),
      toldMs: elapsedMs,
    };
    this.#keep(id, recent);
    return { verdict: await recent.told, ageMs: 0 };
  }

  #keep(id: string, recent: Recent): void {
    if (this.#young.size >= KEPT) {
      this.#old = this.#young;
      this.#young = new Map();
    }
    this.#young.set(id, recent);
  }
}
