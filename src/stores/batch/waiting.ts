import type { Ask, BanPolicy } from "../../core/quota/decide.ts";
import type { AccountName, Answer, NoAnswer } from "../interface/quota-store.ts";
import type { Known } from "./last-answers.ts";

/** Accounts that one call carries at most, and so the number of plans: see ARGV in decide.lua. */
export const CALL_ACCOUNTS_MAX = 256;

/** The requests of one account that wait to be decided together. */
export type Group = {
  readonly id: string;
  readonly name: AccountName;
  readonly ask: Ask;
  /** Set for a refusal that is known already and may be a strike. */
  readonly known: Known | undefined;
  readonly waiting: ((answer: Answer | NoAnswer) => void)[];
};

/** The asks that wait for the calls of one lane. */
export type Lane = {
  readonly number: number;
  queue: Group[];
  strikes: Group[];
  /** The groups of the queue that take more waiters, by account. */
  open: Map<string, Group>;
  calls: number;
  scheduled: boolean;
};

export function wait(group: Group): Promise<Answer | NoAnswer> {
  return new Promise((resolve) => group.waiting.push(resolve));
}

/** The asks of the next call: the queue in its order, then strikes, while they share the policy. There is one. */
export function take(lane: Lane): Group[] {
  const first = lane.queue[0] ?? (lane.strikes[0] as Group);
  const groups: Group[] = [];
  for (const source of [lane.queue, lane.strikes]) {
    let count = 0;
    for (const group of source) {
      if (groups.length >= CALL_ACCOUNTS_MAX || !samePolicy(group.ask.bans, first.ask.bans)) break;
      groups.push(group);
      count += 1;
    }
    source.splice(0, count);
  }
  // A Map that grows and is emptied over and over keeps garbage alive (see gateway/sweep.ts).
  if (lane.queue.length === 0) lane.open = new Map();
  for (const { id } of lane.open.size > 0 ? groups : []) lane.open.delete(id);
  return groups;
}

type Terms = Pick<Ask, "limits" | "bans">;

/** An ask under other limits or another policy (a reload, a changed key) is another ask. */
export function sameTerms(a: Terms, b: Terms): boolean {
  return sameLimits(a.limits, b.limits) && samePolicy(a.bans, b.bans);
}

function sameLimits(a: Terms["limits"], b: Terms["limits"]): boolean {
  if (a === b) return true;
  return (
    a.length === b.length &&
    a.every(({ window, limit }, i) => window === b[i]?.window && limit === b[i]?.limit)
  );
}

function samePolicy(a: Terms["bans"], b: Terms["bans"]): boolean {
  if (a === b) return true;
  if (a === undefined || b === undefined) return false;
  const names = Object.keys(a) as (keyof BanPolicy)[];
  return names.every((name) => a[name] === b[name]);
}
