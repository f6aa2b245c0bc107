import { policyField } from "../../core/http/fields.ts";
import { isSuspended, ownConcurrency } from "../../core/keys/records.ts";
import type { PlanBounds } from "../../core/quota/plan.ts";
import {
  admittedStanding,
  crossedLimits,
  refusalAt,
  type Standing,
  type StandingRefusal,
  untouchedStanding,
  usedUpMessage,
  windowLabel,
} from "../../core/quota/standing.ts";
import { askedLimits, type Limit, type WindowName } from "../../core/quota/windows.ts";
import { accept, type Judged, refuse } from "../../core/refusal.ts";
import type { Answer, NoAnswer } from "../../stores/interface/quota-store.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { Gateway, Served } from "../exchange/served.ts";
import type { Caller } from "./identify.ts";

/** Has the answer say by which windows the caller is limited, where the configuration asks for it. */
export function announcePolicy(
  { rateLimitFields }: Pick<Served, "rateLimitFields">,
  exchange: Exchange,
  { limits }: Pick<Caller, "limits">,
): void {
  if (rateLimitFields === "policy") exchange.announce(policyField(limits));
}

/**
 * Decides the ban and the quotas together and atomically (docs/reference/http.md#quotas). The
 * exchange learns the decision and the charge, and where the account stands.
 */
export function spend(
  gateway: Gateway,
  served: Served,
  consumer: Caller,
  exchange: Exchange,
): Judged<Standing> | Promise<Judged<Standing>> {
  announcePolicy(served, exchange, consumer);
  if (consumer.limits.length === 0) return refuse("plan_missing", `plan ${consumer.plan}`);
  const bounds = served.planBounds.get(consumer.plan) ?? UNBOUNDED;
  const operation = exchange.found?.operation?.limits?.windows ?? NONE;
  const limits = askedLimits(consumer.limits, { operation, observe: bounds.observe });

  const atOnce = judgeAtOnce(gateway, exchange, { bounds, limits, consumer });
  if (!atOnce.ok) {
    standAsKnown(gateway, exchange, { consumer, limits });
    return atOnce;
  }
  const settle = (answer: Answer | NoAnswer): Judged<Standing> => {
    exchange.decided();
    if (!("unavailable" in answer)) {
      if (answer.by === "local") gateway.onWithoutStore("local");
      gateway.onAnswer(consumer, answer, exchange.cost);
      return judgeAnswer(answer, exchange, bounds);
    }
    gateway.onWithoutStore("unavailable");
    standAsKnown(gateway, exchange, { consumer, limits });
    return refuse("store_unavailable", "the rate limit store is away");
  };
  const bans = consumer.key === undefined ? undefined : served.bans;
  const ask = { limits, bans, units: 1, cost: exchange.cost };
  const answer = gateway.quotas.spend(consumer, ask);
  if (!(answer instanceof Promise)) return settle(answer);
  const deciding = answer.then(settle);
  exchange.awaitDecision(deciding);
  return deciding;
}

const UNBOUNDED: PlanBounds = { concurrent: undefined, observe: [] };
const NONE: readonly Limit[] = [];

type Asked = {
  readonly bounds: PlanBounds;
  readonly limits: readonly Limit[];
  readonly consumer: Caller;
};

/**
 * Refuses without asking the store: a suspended account, too many requests at once, and a cost that
 * can never fit. The exchange counts as under way from here to its end.
 */
function judgeAtOnce(
  { concurrency, now }: Gateway,
  exchange: Exchange,
  { bounds: { concurrent }, limits, consumer }: Asked,
): Judged<void> {
  if (consumer.owner && isSuspended(consumer.owner, now())) return refuse("account_suspended");
  const atOnce = (consumer.owner && ownConcurrency(consumer.owner)) ?? concurrent;
  if (atOnce !== undefined && !exchange.occupy(concurrency, consumer.id, atOnce)) {
    return refuse("too_concurrent", `${atOnce} under way`);
  }
  const { cost } = exchange;
  const tooSmall = limits.find(({ limit, observed }) => cost > limit && !observed);
  if (tooSmall === undefined) return accept(undefined);
  const why = `costs ${cost}, over the limit of ${windowLabel(tooSmall)}, ${tooSmall.limit}`;
  return refuse("cost_over_limit", why);
}

/** Where nothing is decided, an account stands as it was last known, or else untouched. */
function standAsKnown(
  { quotas, now }: Gateway,
  exchange: Exchange,
  { consumer, limits }: { readonly consumer: Caller; readonly limits: readonly Limit[] },
): void {
  const last = quotas.lastKnown(consumer, limits);
  exchange.stand(last === undefined ? untouchedStanding(limits, now()) : admittedStanding(last));
}

function judgeAnswer(
  { verdict, admitted, unspent, by }: Answer,
  exchange: Exchange,
  { observe }: PlanBounds,
): Judged<Standing> {
  const { strikes, nowMs: decidedMs } = verdict;
  const { cost } = exchange;
  if (admitted) {
    const standing = admittedStanding(verdict, unspent);
    const crossed = observe.length === 0 ? NONE_CROSSED : crossedLimits(verdict, observe, unspent);
    exchange.decide({
      ...{ decision: "admitted", charged: cost, standing, decidedMs, strikes },
      ...(crossed.length > 0 ? { observed: crossed } : {}),
    });
    return accept(standing);
  }
  const refusal = refusalAt(verdict, decidedMs, cost) as StandingRefusal;
  const { standing } = refusal;
  const windows = verdict.windows
    .filter(({ observed }) => !observed)
    .map(({ used, limit, resetMs, ...window }) => {
      return [windowLabel(window), used, limit, Math.ceil(resetMs / 1_000)] as const;
    });
  exchange.decide({
    ...{ decision: "refused", charged: 0, standing, decidedMs, strikes },
    refusal: { windows, by, ban: verdict.ban && Math.ceil(verdict.ban.untilMs / 1_000) },
  });
  if (refusal.code === "key_banned") return refuse(refusal.code);
  return refuse(refusal.code, undefined, { message: usedUpMessage(standing) });
}

const NONE_CROSSED: readonly WindowName[] = [];
