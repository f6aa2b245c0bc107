import type { Ask, EarnedBan, Verdict } from "../../core/quota/decide.ts";
import type { Limit } from "../../core/quota/windows.ts";
import { type AccountName, type Answer, accountId } from "../interface/quota-store.ts";
import { AgingMap } from "./aging-map.ts";
import { type LastAnswer, mayEarnBan, refuses, verdictSince } from "./last-answers.ts";

/** The accounts forgotten since a call left: its verdict of them is old. */
export type Forgotten = ReadonlySet<string>;

/** Stands for every account; no account is named so. */
const ALL = "*";
/** The era of an answer that came too late for its refusals to hold. */
const STALE = -1;

/**
 * The last answer of the store about each account, and the refusals that it foretells. `clock` is
 * the store's test clock; without it, time since an answer is measured.
 */
export class Answers {
  readonly #clock: (() => number) | undefined;
  readonly #last = new AgingMap<LastAnswer>();
  readonly #underWay = new Set<Set<string>>();
  /** Grows when all refusals are forgotten: those of an answer with another era foretell nothing. */
  #era = 0;

  constructor(clock?: () => number) {
    this.#clock = clock;
  }

  /** The last answer, unless it foretells nothing any more. */
  get(id: string): LastAnswer | undefined {
    const known = this.#last.get(id);
    return known?.era === this.#era ? known : undefined;
  }

  /** A call leaves: the accounts that are forgotten until `end` are gathered for it. */
  begin(): Forgotten {
    const forgotten = new Set<string>();
    this.#underWay.add(forgotten);
    return forgotten;
  }

  end(forgotten: Forgotten): void {
    this.#underWay.delete(forgotten as Set<string>);
  }

  /** Keeps an answer of the call that `forgotten` was gathered for, unless it is old. */
  keep(id: string, answer: LastAnswer, forgotten: Forgotten): void {
    if (forgotten.has(id)) this.#last.delete(id);
    else {
      answer.era = forgotten.has(ALL) ? STALE : this.#era;
      this.#last.set(id, answer);
    }
  }

  /** Keeps a ban that was earned while no request waited: the next refusal tells it. */
  keepUntold(id: string, earned: EarnedBan | undefined): void {
    const whole = this.get(id)?.whole;
    if (earned !== undefined && whole !== undefined) whole.untold = earned;
  }

  /**
   * Forgets one account. Without a name: which requests would be refused, of all accounts, since keys,
   * plans or policies have changed, or a message about one of them was missed. Their counts hold on:
   * in an absence of the store the shares are made from them.
   */
  forget(name?: AccountName): void {
    for (const since of this.#underWay) since.add(name === undefined ? ALL : accountId(name));
    if (name === undefined) this.#era += 1;
    else this.#last.delete(accountId(name));
  }

  /** The account in the windows of `limits`, or in all that are known; undefined for nothing. */
  lastKnown(name: AccountName, limits?: readonly Limit[]): Verdict | undefined {
    const known = this.get(accountId(name));
    return known && verdictSince(known, this.#sinceReceived(known), limits);
  }

  /** The counts of the account in its last answer, whether or not its refusals were forgotten since. */
  lastCounted(name: AccountName): Verdict | undefined {
    const known = this.#last.get(accountId(name));
    return known && verdictSince(known, this.#sinceReceived(known));
  }

  /** Counted from when the call was sent: early costs a command, late would break a promise. */
  refuses(known: LastAnswer, ask: Ask): ReturnType<typeof refuses> {
    if (known.whole === undefined) return "no";
    return refuses(known, ask, this.#latestNow(known));
  }

  /** Whether a strike that reaches the store within `onItsWayMs` could be the one that bans. */
  mayEarnBan(known: LastAnswer, { bans }: Ask, onItsWayMs: number): boolean {
    return mayEarnBan(known, bans, this.#latestNow(known) + onItsWayMs);
  }

  refused(known: LastAnswer, ask: Ask): Answer {
    const verdict = verdictSince(known, this.#sinceReceived(known), ask.limits);
    const answer = { verdict, unspent: 0, admitted: false, by: "memory" } as const;
    const earned = known.whole?.untold;
    if (known.whole === undefined || earned === undefined) return answer;
    known.whole.untold = undefined;
    return { ...answer, earned };
  }

  /** Now on the store's clock, or a little later: its answer was made after the call was sent. */
  #latestNow({ trip: { nowMs, sentMs } }: LastAnswer): number {
    return this.#clock?.() ?? nowMs + performance.now() - sentMs;
  }

  #sinceReceived({ trip: { nowMs, receivedMs } }: LastAnswer): number {
    return this.#clock === undefined ? performance.now() - receivedMs : this.#clock() - nowMs;
  }
}
