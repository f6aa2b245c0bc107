import { standardRateLimit } from "../../core/http/rate-limit-fields.ts";
import { accountConcurrency, isSuspended } from "../../core/keys/records.ts";
import type { QuotaDecision } from "../../core/quota/decide.ts";
import {
  admittedRateLimit,
  crossedLimits,
  limitExceededMessage,
  type RateLimitInfo,
  type RateLimitRefusal,
  rateLimitRefusal,
  shareExceededMessage,
  shareRetrySeconds,
  shareWhy,
  unusedWindows,
  windowLabel,
} from "../../core/quota/rate-limit-info.ts";
import {
  type Limit,
  mergeLimits,
  type PlanOptions,
  type WindowName,
  windowStart,
} from "../../core/quota/windows.ts";
import { accept, type Result, refuse } from "../../core/refusal.ts";
import type { ChargeResult, StoreUnavailable } from "../../stores/quotas/quota-store.ts";
import type { Environment, GatewayContext, ResponseStyle } from "../exchange/environment.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { Caller } from "./authenticate.ts";

/**
 * Decides the ban and the quotas together and atomically (docs/reference/http.md#quotas). Records
 * the decision, the charge and the account's standing in the exchange.
 */
export function chargeQuota(
  gateway: GatewayContext,
  served: Environment,
  consumer: Caller,
  exchange: Exchange,
): Result<RateLimitInfo> | Promise<Result<RateLimitInfo>> {
  if (consumer.limits.length === 0) return refuse("plan_missing", `plan ${consumer.plan}`);
  const bounds = served.planBounds.get(consumer.plan) ?? UNBOUNDED;
  const operation = exchange.found?.operation?.limits?.windows ?? NONE;
  const limits = mergeLimits(consumer.limits, {
    ...{ operation, observe: bounds.observe },
    calendar: consumer.owner?.calendar,
  });

  const atOnce = judgeAtOnce(gateway, exchange, { bounds, limits, consumer });
  if (!atOnce.ok) {
    standAsKnown(gateway, exchange, { consumer, limits });
    return atOnce;
  }
  const settle = (answer: ChargeResult | StoreUnavailable): Result<RateLimitInfo> => {
    if (!("unavailable" in answer)) {
      if (answer.by === "local" || answer.by === "share") gateway.onWithoutStore(answer.by);
      gateway.onAnswer(consumer, answer, exchange.cost);
      announceRateLimit(gateway.style, exchange, answer.verdict, answer.unspent);
      return judgeAnswer(answer, exchange, bounds);
    }
    gateway.onWithoutStore("unavailable");
    standAsKnown(gateway, exchange, { consumer, limits });
    return refuse("store_unavailable", "the rate limit store is away");
  };
  const bans = consumer.key === undefined ? undefined : served.bans;
  const ask = { limits, bans, requests: 1, cost: exchange.cost, plan: consumer.plan };
  const answer = gateway.quotas.charge(consumer, ask);
  if (!(answer instanceof Promise)) return settle(answer);
  const deciding = answer.then((late) => {
    exchange.endDecision(gateway.elapsed());
    return settle(late);
  });
  exchange.awaitDecision(deciding, gateway.elapsed());
  return deciding;
}

const UNBOUNDED: PlanOptions = { concurrent: undefined, observe: [], included: [], meters: [] };
const NONE: readonly Limit[] = [];

type Asked = {
  readonly bounds: PlanOptions;
  readonly limits: readonly Limit[];
  readonly consumer: Caller;
};

/**
 * Refuses without asking the store: a suspended account, too many requests at once, and a cost that
 * can never fit. The exchange counts as in progress from here to its end.
 */
function judgeAtOnce(
  { concurrency, now }: GatewayContext,
  exchange: Exchange,
  { bounds: { concurrent }, limits, consumer }: Asked,
): Result<void> {
  if (consumer.owner && isSuspended(consumer.owner, now())) return refuse("account_suspended");
  const atOnce = (consumer.owner && accountConcurrency(consumer.owner)) ?? concurrent;
  if (atOnce !== undefined && !exchange.acquireConcurrency(concurrency, consumer.id, atOnce)) {
    return refuse("too_concurrent", `${atOnce} under way`);
  }
  const { cost } = exchange;
  const tooSmall = limits.find(({ limit, observed }) => cost > limit && !observed);
  if (tooSmall === undefined) return accept(undefined);
  const why = `costs ${cost}, over the limit of ${windowLabel(tooSmall)}, ${tooSmall.limit}`;
  return refuse("cost_over_limit", why);
}

/** Without a decision, the standing is the last known one, or that of an unused account. */
function standAsKnown(
  { quotas, now, style }: GatewayContext,
  exchange: Exchange,
  { consumer, limits }: { readonly consumer: Caller; readonly limits: readonly Limit[] },
): void {
  const last = quotas.lastKnown(consumer, limits);
  const known = last ?? { windows: unusedWindows(limits, now()), nowMs: now() };
  exchange.stand(admittedRateLimit(known));
  announceRateLimit(style, exchange, known);
}

function judgeAnswer(
  { verdict, admitted, unspent, by }: ChargeResult,
  exchange: Exchange,
  { observe }: PlanOptions,
): Result<RateLimitInfo> {
  const { strikes, nowMs: decidedMs } = verdict;
  const { cost } = exchange;
  if (admitted) {
    const standing = admittedRateLimit(verdict, unspent);
    const crossed = observe.length === 0 ? NONE_CROSSED : crossedLimits(verdict, observe, unspent);
    exchange.decide({
      ...{ outcome: "admitted", charged: cost, standing, decidedMs, strikes },
      ...(crossed.length > 0 ? { observed: crossed } : {}),
    });
    return accept(standing);
  }
  const refusal = rateLimitRefusal(verdict, decidedMs, cost) as RateLimitRefusal;
  const { standing } = refusal;
  const windows = verdict.windows
    .filter(({ observed }) => !observed)
    .map(({ used, limit, resetMs, ...window }) => {
      return [windowLabel(window), used, limit, Math.ceil(resetMs / 1_000)] as const;
    });
  exchange.decide({
    ...{ outcome: "refused", charged: 0, standing, decidedMs, strikes },
    refusal: {
      windows,
      monthFrom: monthFrom(verdict),
      by,
      ban: verdict.ban && Math.ceil(verdict.ban.untilMs / 1_000),
    },
  });
  if (by === "share") {
    const message = shareExceededMessage(standing);
    const retryAfterSeconds = shareRetrySeconds(standing, cost, decidedMs);
    return refuse("store_unavailable", shareWhy(standing), { message, retryAfterSeconds });
  }
  if (refusal.code === "key_banned") return refuse(refusal.code);
  return refuse(refusal.code, undefined, { message: limitExceededMessage(standing) });
}

/** The start of the account's month in Unix seconds, if it is not the first day. */
function monthFrom({ windows }: QuotaDecision): number | undefined {
  const month = windows.find(({ calendar }) => calendar !== undefined);
  if (month === undefined) return undefined;
  return windowStart(month.window, month.resetMs - 1, month.calendar) / 1_000;
}

const NONE_CROSSED: readonly WindowName[] = [];

type Announced = Pick<QuotaDecision, "windows" | "nowMs"> & Partial<Pick<QuotaDecision, "ban">>;

/** Announces every window in the standard fields, if the configuration asks for it. */
export function announceRateLimit(
  { rateLimitFields }: ResponseStyle,
  exchange: Exchange,
  decision: Announced,
  unspent = 0,
): void {
  if (rateLimitFields === "off") return;
  exchange.announce(standardRateLimit(decision, decision.nowMs, unspent));
}
