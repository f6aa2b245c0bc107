import type { Ask } from "../../core/quota/decide.ts";
import type { AccountName, Answer, NoAnswer } from "../interface/quota-store.ts";
import { CALL_ACCOUNTS_MAX, planText, policyText } from "../redis/decide-call.ts";
import type { Known } from "./last-answers.ts";

/** The requests of one account that wait to be decided together. */
export type Group = {
  readonly id: string;
  readonly name: AccountName;
  readonly ask: Ask;
  /** Set for a refusal that is known already and may be a strike. */
  readonly known: Known | undefined;
  readonly waiting: ((answer: Answer | NoAnswer) => void)[];
};

/** What waits for the calls of one lane. */
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
      if (groups.length >= CALL_ACCOUNTS_MAX || !samePolicy(group.ask, first.ask)) break;
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
  const sameLimits = a.limits === b.limits || planText(a.limits) === planText(b.limits);
  return sameLimits && samePolicy(a, b);
}

function samePolicy(a: Terms, b: Terms): boolean {
  if (a.bans === b.bans) return true;
  const [one, other] = [policyText(a.bans), policyText(b.bans)];
  return one.terms === other.terms && one.lengths === other.lengths;
}
