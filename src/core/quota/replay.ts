import type { BanPolicy } from "./bans.ts";
import { type AccountState, decide, NEW_ACCOUNT_STATE, type QuotaDecision } from "./decide.ts";
import { rateLimitRefusal, windowLabel } from "./rate-limit-info.ts";
import type { PastOutcome, ReplayEntry } from "./replay-log.ts";
import type { Limit } from "./windows.ts";

/** The quota request that requests of one kind make under the plan that is tried. */
export type RequestKind = { readonly limits: readonly Limit[]; readonly cost: number };

/** Requests of one account whose outcome differs: refused now and admitted then, or the reverse. */
export type ReplayDifference = {
  readonly requests: number;
  /** Admitted then, and over a limit now. */
  readonly limited: number;
  readonly limitedSinceMs: number | undefined;
  /** The window of the first of them. */
  readonly window: string | undefined;
  /** Refused by a ban now, and not then. */
  readonly banned: number;
  readonly bannedSinceMs: number | undefined;
  /** Bans that the account would earn in total. */
  readonly bans: number;
  /** Refused then, and admitted now. */
  readonly admitted: number;
  /** Refused by a ban then, and over a limit now. */
  readonly unbanned: number;
};

/**
 * Decides the requests of one account again, in their order and at their instants, by the same rule
 * as when they arrived (docs/reference/http.md#quotas). The account starts without any usage.
 */
export function replay(
  asks: Iterable<ReplayEntry>,
  kinds: readonly RequestKind[],
  bans: BanPolicy | undefined,
): ReplayDifference {
  const found = { ...NOTHING };
  let account: AccountState = NEW_ACCOUNT_STATE;
  for (const { atMs, kind, outcome } of asks) {
    const { limits, cost } = kinds[kind] as RequestKind;
    found.requests += 1;
    const tooSmall = limits.find(({ limit }) => cost > limit);
    if (tooSmall !== undefined) {
      compare(found, { was: outcome, is: "limited", atMs, window: windowLabel(tooSmall) });
      continue;
    }
    const decision = decide(account, { limits, bans, requests: 1, cost }, atMs);
    account = decision.account;
    const { decision: verdict } = decision;
    if (verdict.newBan !== undefined && !bans?.observe) found.bans += 1;
    compare(found, { was: outcome, atMs, ...outcomeOf(verdict, cost) });
  }
  return found;
}

/** Whether any request was decided differently than before. */
export function isDifferent({ limited, banned, admitted, unbanned }: ReplayDifference): boolean {
  return limited + banned + admitted + unbanned > 0;
}

type MutableDifference = { -readonly [Member in keyof ReplayDifference]: ReplayDifference[Member] };

const NOTHING: ReplayDifference = {
  ...{ requests: 0, bans: 0, admitted: 0, unbanned: 0 },
  ...{ limited: 0, limitedSinceMs: undefined, window: undefined },
  ...{ banned: 0, bannedSinceMs: undefined },
};

type OutcomePair = {
  readonly was: PastOutcome;
  readonly is: PastOutcome;
  readonly atMs: number;
  readonly window: string | undefined;
};

function compare(found: MutableDifference, { was, is, atMs, window }: OutcomePair): void {
  if (was === is) return;
  if (is === "admitted") found.admitted += 1;
  else if (is === "banned") {
    found.banned += 1;
    found.bannedSinceMs ??= atMs;
  } else if (was === "banned") found.unbanned += 1;
  else {
    found.limited += 1;
    found.limitedSinceMs ??= atMs;
    found.window ??= window;
  }
}

function outcomeOf(decision: QuotaDecision, cost: number): Pick<OutcomePair, "is" | "window"> {
  if (decision.granted > 0) return { is: "admitted", window: undefined };
  const refusal = rateLimitRefusal(decision, decision.nowMs, cost);
  if (refusal?.code === "key_banned") return { is: "banned", window: undefined };
  return { is: "limited", window: refusal?.rateLimitInfo.window };
}
