import { type WindowName, windowEnd, windowStart } from "../../src/core/quota/windows.ts";
import type { Harm } from "./faults.ts";
import { type Line, OPERATION_LIMIT, PLANS } from "./house.ts";
import type { Asked } from "./load.ts";

/** The signs that gateways gave of a round beside the request lines. */
export type Signs = {
  /** Request lines, by the id of the request. */
  readonly lines: ReadonlyMap<string, Line>;
  /** Units that may have been charged twice, or not taken back, by account. */
  readonly uncertain: ReadonlyMap<string, number>;
  readonly lostUnits: number;
  readonly regressions: number;
};

/** The figures of all rounds. The first four are work, the others should be 0. */
export type Tally = {
  requests: number;
  admitted: number;
  refused: number;
  shares: number;
  /** 429 of accounts that had room, whatever late calls may have charged. */
  false429: number;
  /** Windows over the limit, over limit + G - 1, and over twice the limit + G - 1. */
  overLimit: number;
  overShares: number;
  overBound: number;
  /** The most that a window had beyond its limit. */
  mostOver: number;
  /** Units on the bill that no answer had, where nothing told of them. */
  surplus: number;
  /** Further ones, told as uncertain by a line, and under way in a gateway that was killed. */
  surplusTold: number;
  surplusKilled: number;
  /** Units that answers had and that are not on the bill. */
  missing: number;
  missingTold: number;
  missingKilled: number;
  missingLost: number;
  /** Answers without a request line, and those of killed gateways. */
  lostLines: number;
  lostLinesKilled: number;
  /** Lines that disagree with their answers. */
  wrongLines: number;
};

export function newTally(): Tally {
  return {
    ...{ requests: 0, admitted: 0, refused: 0, shares: 0, false429: 0 },
    ...{ overLimit: 0, overShares: 0, overBound: 0, mostOver: 0 },
    ...{ surplus: 0, surplusTold: 0, surplusKilled: 0 },
    ...{ missing: 0, missingTold: 0, missingKilled: 0, missingLost: 0 },
    ...{ lostLines: 0, lostLinesKilled: 0, wrongLines: 0 },
  };
}

export type Round = {
  readonly asked: readonly Asked[];
  readonly signs: Signs;
  /** Units of each account by its history. */
  readonly billed: ReadonlyMap<string, number>;
  readonly harms: ReadonlySet<Harm>;
  /** The most gateways that were there at a time. */
  readonly gateways: number;
  /** Urls of the gateways that were killed. */
  readonly killed: ReadonlySet<string>;
};

/** An answer that a late call may have charged before it was taken back. */
const TAKEN_BACK_MS = 10_000;

/** Adds a round to the tally; gives a line for each thing that was wrong. */
export function judge(tally: Tally, round: Round): string[] {
  const found: string[] = [];
  judgeLines(tally, round, found);
  const byAccount = Map.groupBy(round.asked, ({ account }) => account);
  for (const [account, asked] of byAccount) {
    judgeRefusals(tally, asked, round, found);
    judgeBounds(tally, asked, round, found);
    judgeBill(tally, account, asked, round, found);
  }
  return found;
}

function judgeLines(tally: Tally, { asked, signs, killed }: Round, found: string[]): void {
  for (const each of asked) {
    tally.requests += 1;
    if (each.status === 200) tally.admitted += 1;
    if (each.status === 429) tally.refused += 1;
    if (each.status === 503) tally.shares += 1;
    if (each.id === undefined) continue;
    const line = signs.lines.get(each.id);
    if (line === undefined) {
      const isKilled = killed.has(each.gateway.url);
      tally[isKilled ? "lostLinesKilled" : "lostLines"] += 1;
      if (!isKilled) found.push(`no line of ${each.id}, ${each.status}`);
    } else if (line.status !== each.status || line.charged !== unitsOf(each)) {
      tally.wrongLines += 1;
      found.push(`${each.status} ${unitsOf(each)} was told, and logged ${JSON.stringify(line)}`);
    }
  }
}

/** An admitted request is charged whatever its answer: a busy machine may lose its backend. */
export function unitsOf({ status, cost }: Asked): number {
  return status === 200 || status === 502 || status === 504 ? cost : 0;
}

/** The instant of the decision, as far as it is known. */
function decidedMs(each: Asked, { lines }: Signs): number {
  return Number(lines.get(each.id ?? "")?.decidedAt ?? Math.min(each.receivedMs, Date.now()));
}

function judgeRefusals(tally: Tally, asked: readonly Asked[], round: Round, found: string[]): void {
  for (const refused of asked) {
    if (refused.code !== "rate_limited" || refused.window === undefined) continue;
    const { window: label, resetMs, receivedMs, cost, account, plan } = refused;
    const [operation, window] = label.includes(".") ? label.split(".") : [undefined, label];
    const startMs = windowStart(window as WindowName, resetMs - 1);
    const terms: Readonly<Record<string, number>> = PLANS[plan];
    // The plan's own limit: the one that is told may be a share.
    const limit = operation === undefined ? (terms[window as string] ?? 0) : OPERATION_LIMIT;
    const possible = asked.reduce((sum, each) => {
      if (each.sentMs > receivedMs || each === refused) return sum;
      if (operation !== undefined && each.path !== operation) return sum;
      const atMs = decidedMs(each, round.signs);
      const isInside = atMs >= startMs && each.sentMs < resetMs;
      const mayCount = unitsOf(each) > 0 || each.sentMs > receivedMs - TAKEN_BACK_MS;
      return isInside && mayCount && each.code !== "rate_limited" ? sum + each.cost : sum;
    }, round.signs.uncertain.get(account) ?? 0);
    if (possible + cost > limit) continue;
    tally.false429 += 1;
    const by = round.signs.lines.get(refused.id ?? "")?.by;
    found.push(
      `false 429 by ${by}: ${possible} of ${limit} in ${label} of ${account}, ${cost} asked`,
    );
  }
}

function judgeBounds(tally: Tally, asked: readonly Asked[], round: Round, found: string[]): void {
  const [first] = asked;
  if (first === undefined || round.harms.has("loses")) return;
  const limits = Object.entries(PLANS[first.plan]) as [WindowName, number][];
  for (const [operation, window, limit] of [
    ...limits.map(([name, most]) => [undefined, name, most] as const),
    ["limited", "minute", OPERATION_LIMIT] as const,
  ]) {
    const sums = new Map<number, number>();
    for (const each of asked) {
      if (operation !== undefined && each.path !== operation) continue;
      const endMs = windowEnd(window, windowStart(window, decidedMs(each, round.signs)));
      sums.set(endMs, (sums.get(endMs) ?? 0) + unitsOf(each));
    }
    for (const used of sums.values()) {
      const over = used - limit;
      if (over <= 0) continue;
      const shares = round.gateways - 1;
      tally.overLimit += 1;
      tally.mostOver = Math.max(tally.mostOver, over);
      if (over > shares) tally.overShares += 1;
      if (over <= limit + shares) continue;
      tally.overBound += 1;
      found.push(`${used} of ${limit} a ${operation ?? ""} ${window} of ${first.account}`);
    }
  }
}

function judgeBill(
  tally: Tally,
  account: string,
  asked: readonly Asked[],
  { signs, billed, harms, killed }: Round,
  found: string[],
): void {
  const answered = asked.reduce((sum, each) => sum + unitsOf(each), 0);
  const units = billed.get(account) ?? 0;
  if (units === answered || harms.has("loses")) {
    if (units < answered) tally.missingLost += answered - units;
    return;
  }
  const told = signs.uncertain.get(account) ?? 0;
  if (units > answered) {
    const underWay = asked.reduce((sum, { status, cost, gateway }) => {
      return status === 0 && killed.has(gateway.url) ? sum + cost : sum;
    }, 0);
    let surplus = units - answered;
    const ofKilled = Math.min(surplus, underWay);
    surplus -= ofKilled;
    const ofTold = Math.min(surplus, told);
    surplus -= ofTold;
    tally.surplusKilled += ofKilled;
    tally.surplusTold += ofTold;
    tally.surplus += surplus;
    if (surplus > 0) {
      found.push(
        `${units} billed, ${answered} answered, ${told} told, ${underWay} under way: ${account}`,
      );
    }
    return;
  }
  const missing = answered - units;
  if (harms.has("kills")) tally.missingKilled += missing;
  else if (signs.lostUnits > 0) tally.missingTold += missing;
  else {
    tally.missing += missing;
    found.push(`${units} billed, ${answered} answered: ${account}`);
  }
}
