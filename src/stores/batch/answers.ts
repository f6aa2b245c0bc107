import type { Ask, Verdict } from "../../core/quota/decide.ts";
import type { Limit } from "../../core/quota/windows.ts";
import { type AccountName, type Answer, accountId } from "../interface/quota-store.ts";
import { AgingMap } from "./aging-map.ts";
import { type LastAnswer, refuses, verdictSince } from "./last-answers.ts";

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
    const { nowMs, sentMs } = known.trip;
    return refuses(known, ask, this.#clock?.() ?? nowMs + performance.now() - sentMs);
  }

  refused(known: LastAnswer, ask: Ask): Answer {
    const verdict = verdictSince(known, this.#sinceReceived(known), ask.limits);
    return { verdict, unspent: 0, admitted: false, by: "memory" };
  }

  #sinceReceived({ trip: { nowMs, receivedMs } }: LastAnswer): number {
    return this.#clock === undefined ? performance.now() - receivedMs : this.#clock() - nowMs;
  }
}
