import type { Ban } from "../../../../core/quota/bans.ts";
import { BoundedAccounts } from "../../bounded-accounts.ts";
import type { ToldBan } from "./invalidation-message.ts";

/** A ban that may be believed; `toldMsAgo` is how long ago it was made if it was told and not read. */
export type RecentBan = {
  readonly ban: Ban;
  readonly atMs: number;
  readonly toldMsAgo?: number;
};

/** The most accounts with a ban that are remembered, and the most with a lift. */
const ACCOUNTS_MAX = 10_000;

/**
 * The last ban or lift that was told of each account, by the instants of the store's clock, because
 * the message of an earlier change may arrive after that of a later one. Lifts, which any change counts
 * as that may have been one, have places of their own, so that no number of them drops a ban.
 */
export class ToldBans {
  readonly #bans = new BoundedAccounts<ToldBan>(ACCOUNTS_MAX);
  readonly #lifts = new BoundedAccounts<ToldBan>(ACCOUNTS_MAX);
  /** The latest lift that was dropped: each account without a place may have been lifted then. */
  #liftedMs = 0;
  #sinceMs = performance.now();

  /**
   * A lift counts in any case: its instant is earlier than that of the ban where the clock of the
   * store was set back, as by a failover. No ban counts that is not later than all that was heard.
   */
  hear(told: ToldBan): void {
    const { id, ban } = told;
    const lastMs = (this.#bans.get(id) ?? this.#lifts.get(id))?.atMs ?? this.#liftedMs;
    if (ban !== undefined && told.atMs <= lastMs) return;
    const last = { ...told, atMs: Math.max(lastMs, told.atMs) };
    if (ban === undefined) {
      this.#bans.delete(id);
      this.#liftedMs = Math.max(this.#liftedMs, this.#lifts.add(id, last)?.atMs ?? 0);
    } else {
      this.#lifts.delete(id);
      this.#bans.add(id, last);
    }
  }

  /**
   * The ban of an account; undefined if none was told, if it was lifted, or if a lift may have been
   * missed since. `nowMs` is the store's clock, rather ahead than behind.
   */
  recent(id: string, nowMs: number): RecentBan | undefined {
    const { ban, atMs } = this.#bans.get(id) ?? { ban: undefined, atMs: 0 };
    const ageMs = Math.max(0, nowMs - atMs);
    const isOrdered = performance.now() - ageMs >= this.#sinceMs;
    return ban !== undefined && isOrdered ? { ban, atMs, toldMsAgo: ageMs } : undefined;
  }

  /** Called when a message was missed: no ban from before it is believed. */
  forget(): void {
    this.#bans.clear();
    this.#lifts.clear();
    this.#liftedMs = 0;
    this.#sinceMs = performance.now();
  }
}
