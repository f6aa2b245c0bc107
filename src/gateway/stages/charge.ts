import { standardRateLimit } from "../../core/http/rate-limit-fields.ts";
import { accountConcurrency, isSuspended } from "../../core/keys/records.ts";
import type { QuotaDecision } from "../../core/quota/decide.ts";
import { type Holds, withMeters } from "../../core/quota/meters.ts";
import {
  admittedRateLimit,
  crossedLimits,
  type DecidedRequest,
  knownRateLimit,
  unusedWindows,
  windowLabel,
  withoutUnknown,
} from "../../core/quota/rate-limit-info.ts";
import {
  costIn,
  counterName,
  isMeter,
  type Limit,
  mergeLimits,
  type PlanOptions,
  type WindowName,
} from "../../core/quota/windows.ts";
import { accept, type Result, refuse } from "../../core/refusal.ts";
import type { ChargeResult, StoreUnavailable } from "../../stores/quotas/quota-store.ts";
import {
  type Environment,
  type GatewayContext,
  operationLimits,
  type ResponseStyle,
} from "../exchange/environment.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { Caller } from "./authenticate.ts";
import { refuseByQuota } from "./quota-refusal.ts";

/** An account that makes a request, and the windows that decide it in its environment. */
type AskedAccount = {
  readonly environment: Environment;
  readonly caller: Caller;
  readonly limits: readonly Limit[];
};

type AskedRequest = AskedAccount & { readonly options: PlanOptions };

/**
 * Decides the ban and the quotas together and atomically (docs/reference/http.md#quotas). Records
 * the decision, the charge and the account's standing in the exchange.
 */
export function chargeQuota(
  gateway: GatewayContext,
  environment: Environment,
  caller: Caller,
  exchange: Exchange,
): Result<void> | Promise<Result<void>> {
  if (caller.limits.length === 0) return refuse("plan_missing", `plan ${caller.plan}`);
  const options = environment.planBounds.get(caller.plan) ?? UNBOUNDED;
  const operation = exchange.found?.operation?.limits?.windows ?? NONE;
  const { observe } = options;
  const calendar = caller.owner?.calendar;
  const own = mergeLimits(caller.limits, { operation, observe, calendar });
  const metered = limitsOf(own, caller, options, exchange);
  const limits = typeof metered === "string" ? own : metered;
  const asked = { environment, caller, limits, options };

  const atOnce = judgeAtOnce(gateway, exchange, asked, metered);
  if (!atOnce.ok) {
    standAsKnown(gateway, exchange, asked);
    return atOnce;
  }
  const bans = caller.key === undefined ? undefined : environment.bans;
  const quotaRequest = { limits, bans, requests: 1, cost: exchange.cost, plan: caller.plan };
  const answer = gateway.quotas.charge(caller, quotaRequest);
  if (!(answer instanceof Promise)) return judgeAnswer(gateway, exchange, asked, answer);
  const deciding = answer.then((late) => {
    exchange.endDecision(gateway.elapsed());
    return judgeAnswer(gateway, exchange, asked, late);
  });
  exchange.awaitDecision(deciding, gateway.elapsed());
  return deciding;
}

const UNBOUNDED: PlanOptions = { concurrent: undefined, observe: [], included: [], meters: [] };
const NONE: readonly Limit[] = [];

/** The windows with those of the operation's meters, or the name of a meter that is missing. */
function limitsOf(
  limits: readonly Limit[],
  { owner }: Caller,
  { meters: plan }: PlanOptions,
  { found }: Exchange,
): readonly Limit[] | string {
  const meters = found?.meters ?? [];
  return meters.length === 0
    ? limits
    : withMeters(limits, meters, { plan, own: owner?.limits ?? [], calendar: owner?.calendar });
}

/**
 * Refuses without asking the store: a suspended account, too many requests at once, a meter that the
 * account lacks (`metered` is its name), and a cost or hold that can never fit. The exchange counts
 * as in progress from here to its end.
 */
function judgeAtOnce(
  { concurrency, now }: GatewayContext,
  exchange: Exchange,
  { options: { concurrent }, caller }: AskedRequest,
  metered: readonly Limit[] | string,
): Result<void> {
  if (caller.owner?.suspended && isSuspended(caller.owner, now())) {
    return refuse("account_suspended");
  }
  const atOnce = (caller.owner && accountConcurrency(caller.owner)) ?? concurrent;
  if (atOnce !== undefined && !exchange.acquireConcurrency(concurrency, caller.id, atOnce)) {
    return refuse("too_concurrent", `${atOnce} under way`);
  }
  if (typeof metered === "string") {
    const message = `The plan ${caller.plan} does not include ${metered}, which this operation uses`;
    return refuse("meter_missing", `plan ${caller.plan} lacks the meter ${metered}`, { message });
  }
  const { cost } = exchange;
  const tooSmall = metered.find((limit) => costIn(limit, cost) > limit.limit && !limit.observed);
  if (tooSmall === undefined) return accept(undefined);
  const { hold } = tooSmall;
  const window = windowLabel(tooSmall);
  if (hold === undefined) exchange.exceed(window);
  const taken = hold === undefined ? `costs ${cost}` : `holds ${hold}`;
  const why = `${taken}, over the limit of ${window}, ${tooSmall.limit}`;
  return refuse("cost_over_limit", why);
}

/**
 * Without a decision, the standing is the last known one, or else what was `read` of the account, or
 * that of an unused account. Redis may have told of a ban before a reload turned bans off.
 */
export function standAsKnown(
  { quotas, now, style }: GatewayContext,
  exchange: Exchange,
  { environment, caller, limits }: AskedAccount,
  read?: QuotaDecision,
): void {
  const hasBans = environment.bans !== undefined;
  const last = quotas.lastKnown(caller, limits, { isRead: read !== undefined, hasBans });
  const known = knownWith(limits, last, read, now());
  const inForce = environment.bans === undefined ? { ...known, ban: undefined } : known;
  exchange.setRateLimitInfo(knownRateLimit(inForce, operationLimits(environment)));
  announceRateLimit(style, exchange, inForce);
}

/** The last known state. Of a window of which it knows nothing, what was read, while the window runs. */
function knownWith(
  limits: readonly Limit[],
  last: QuotaDecision | undefined,
  read: QuotaDecision | undefined,
  storeMs: number,
): AnnouncedDecision {
  const nowMs = last?.nowMs ?? storeMs;
  const windows = (last?.windows ?? unusedWindows(limits, nowMs)).map((usage) => {
    if (last !== undefined && !usage.isUnknown) return usage;
    const counter = counterName(usage);
    const running = read?.windows.find((one) => {
      return one.resetMs > nowMs && counterName(one) === counter;
    });
    return running ?? usage;
  });
  return { windows, nowMs, ban: (last ?? read)?.ban };
}

/** Admits or refuses by the answer of the store, or of what stands in for it. */
function judgeAnswer(
  gateway: GatewayContext,
  exchange: Exchange,
  asked: AskedRequest,
  answer: ChargeResult | StoreUnavailable,
): Result<void> {
  if ("unavailable" in answer) {
    gateway.onWithoutStore("unavailable");
    standAsKnown(gateway, exchange, asked);
    return refuse("store_unavailable", "the rate limit store is away");
  }
  const { caller, environment } = asked;
  const { cost } = exchange;
  const request = { cost, requestsAfter: answer.requestsAfter };
  if (answer.by === "local" || answer.by === "share") gateway.onWithoutStore(answer.by);
  gateway.onAnswer(caller, answer, cost);
  announceRateLimit(gateway.style, exchange, withoutUnknown(answer.decision), request);
  if (answer.admitted) return admit(gateway, exchange, asked, answer.decision, request);
  const operations = operationLimits(environment);
  return refuseByQuota({ holds: gateway.holds, operations }, answer, exchange, caller);
}

function admit(
  { holds: open }: GatewayContext,
  exchange: Exchange,
  { options: { observe }, caller, limits }: AskedRequest,
  decision: QuotaDecision,
  request: DecidedRequest,
): Result<void> {
  const { strikes, nowMs: decidedMs } = decision;
  const crossed = observe.length === 0 ? NONE_CROSSED : crossedLimits(decision, observe, request);
  const holds = holdsOf(exchange, caller, decision, limits);
  if (holds !== undefined) open.add(caller, holds);
  exchange.setDecision({
    outcome: "admitted",
    charged: exchange.cost,
    rateLimitInfo: admittedRateLimit(decision, request),
    decidedMs,
    strikes,
    observed: crossed.length > 0 ? crossed : undefined,
    holds: holds && { accountRef: caller, holds },
  });
  return accept(undefined);
}

const NONE_CROSSED: readonly WindowName[] = [];

/**
 * The holds of an admitted request; undefined if it has no meters. Their limits are those of
 * `limits`, as a decision without the store has this gateway's share in their place.
 */
function holdsOf(
  { id, found }: Exchange,
  { plan }: Caller,
  { windows, nowMs: decidedMs }: QuotaDecision,
  limits: readonly Limit[],
): Holds | undefined {
  const meters = found?.meters ?? [];
  if (meters.length === 0) return undefined;
  const held = windows.flatMap((counted, i) => {
    const { limit } = limits[i] ?? counted;
    return isMeter(counted) ? [{ ...counted, limit }] : [];
  });
  return { id, plan, meters, windows: held, decidedMs };
}

type AnnouncedDecision = Pick<QuotaDecision, "windows" | "nowMs"> &
  Partial<Pick<QuotaDecision, "ban">>;

/** Announces every window in the standard fields, if the configuration asks for it. */
function announceRateLimit(
  { rateLimitFields }: ResponseStyle,
  exchange: Exchange,
  decision: AnnouncedDecision,
  request: DecidedRequest = {},
): void {
  if (rateLimitFields === "off") return;
  exchange.setRateLimit(standardRateLimit(decision, decision.nowMs, request));
}
