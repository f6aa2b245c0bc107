import type { Ask, EarnedBan, Verdict } from "../../core/quota/decide.ts";
import type { Limit } from "../../core/quota/windows.ts";
import { type AccountName, type Answer, accountId } from "../interface/quota-store.ts";
import { AgingMap } from "./aging-map.ts";
import { type LastAnswer, mayEarnBan, refuses, verdictSince } from "./last-answers.ts";

/** The accounts forgotten since a call left: its verdict of them is old. */
export type Forgotten = ReadonlySet<string>;

/** Stands for every account; no account is named so. */
const ALL = "*";

/**
 * The last answer of the store about each account, and the refusals that it foretells. `clock` is
 * the store's test clock; without it, time since an answer is measured.
 */
export class Answers {
  readonly #clock: (() => number) | undefined;
  readonly #last = new AgingMap<LastAnswer>();
  readonly #underWay = new Set<Set<string>>();

  constructor(clock?: () => number) {
    this.#clock = clock;
  }

  get(id: string): LastAnswer | undefined {
    return this.#last.get(id);
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
    if (forgotten.has(ALL) || forgotten.has(id)) this.#last.delete(id);
    else this.#last.set(id, answer);
  }

  /** Keeps a ban that was earned while no request waited: the next refusal tells it. */
  keepUntold(id: string, earned: EarnedBan | undefined): void {
    const whole = this.#last.get(id)?.whole;
    if (earned !== undefined && whole !== undefined) whole.untold = earned;
  }

  /** Forgets one account, or all. */
  forget(name?: AccountName): void {
    for (const since of this.#underWay) since.add(name === undefined ? ALL : accountId(name));
    if (name === undefined) this.#last.clear();
    else this.#last.delete(accountId(name));
  }

  /** The account in the windows of `limits`, or in all that are known; undefined for nothing. */
  lastKnown(name: AccountName, limits?: readonly Limit[]): Verdict | undefined {
    const known = this.#last.get(accountId(name));
    return known && verdictSince(known, this.#sinceReceived(known), limits);
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
