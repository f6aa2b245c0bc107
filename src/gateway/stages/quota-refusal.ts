import type { Ban } from "../../core/quota/bans.ts";
import type { QuotaDecision, WindowUsage } from "../../core/quota/decide.ts";
import { heldUnits, isHeldByOthers } from "../../core/quota/meters.ts";
import {
  aboveShareMessage,
  exceedsShare,
  limitExceededMessage,
  type RateLimitInfo,
  type RateLimitRefusal,
  rateLimitRefusal,
  shareExceededMessage,
  shareRetrySeconds,
  shareWhy,
  windowLabel,
  withoutUnknown,
} from "../../core/quota/rate-limit-info.ts";
import { roundUpToSeconds } from "../../core/quota/whole-seconds.ts";
import { costIn, isMeter, type Limit, usageStart } from "../../core/quota/windows.ts";
import { type Result, refuse } from "../../core/refusal.ts";
import type { ChargeResult } from "../../stores/quotas/quota-store.ts";
import type { OpenHolds } from "../client/open-holds.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { DecisionFacts } from "../exchange/exchange-record.ts";
import type { Caller } from "./authenticate.ts";

type RefusalInputs = {
  readonly holds: OpenHolds;
  /** The windows of all operations of the environment. */
  readonly operations: readonly Limit[];
};

/** Refuses by the store's decision, or by the one that is known of it, and records why. */
export function refuseByQuota(
  { holds, operations }: RefusalInputs,
  { decision, by }: ChargeResult,
  exchange: Exchange,
  caller: Caller,
): Result<never> {
  const { cost } = exchange;
  const { nowMs: decidedMs, strikes } = decision;
  const request = { cost, operations, by };
  const facts = by === "memory" ? knownFacts(decision, request) : refusalFacts(decision, request);
  const { rateLimitInfo, logged, refusal } = facts;
  exchange.setDecision({
    outcome: "refused",
    charged: 0,
    rateLimitInfo,
    decidedMs,
    strikes,
    refusal: logged,
  });
  if (by === "share") {
    const above = decision.windows.find((share) => {
      return !share.observed && exceedsShare(costIn(share, cost), share.limit);
    });
    const message =
      above === undefined
        ? shareExceededMessage(rateLimitInfo)
        : aboveShareMessage(above, costIn(above, cost));
    const isOver = above !== undefined;
    const retryAfterSeconds = shareRetrySeconds(rateLimitInfo.resetMs, decidedMs, isOver);
    return refuse("store_unavailable", shareWhy(rateLimitInfo), { message, retryAfterSeconds });
  }
  const mayBeHeld = facts.code !== "key_banned" && facts.isMetered;
  if (mayBeHeld && isHeldByOthers(decision, cost, (one) => holds.unitsIn(caller, one))) {
    return refuse("meter_held", undefined, { retryAfterSeconds: 1 });
  }
  return refusal;
}

type RefusedRequest = Pick<RefusalInputs, "operations"> & {
  readonly cost: number;
  readonly by: ChargeResult["by"];
};

/**
 * The facts that follow from the windows of a refusal, a ban, the cost and the windows of all
 * operations, at whatever time.
 */
type RefusalFacts = Omit<RefusedRequest, "by"> & {
  readonly ban: Ban | undefined;
  readonly code: RateLimitRefusal["code"];
  readonly rateLimitInfo: RateLimitInfo;
  readonly isMetered: boolean;
  readonly logged: NonNullable<DecisionFacts["refusal"]>;
  readonly refusal: Result<never>;
};

/** By the windows of a refusal from memory, which stay the same list while they stay as they are. */
const known = new WeakMap<readonly WindowUsage[], RefusalFacts>();

function knownFacts(decision: QuotaDecision, request: RefusedRequest): RefusalFacts {
  const { cost, operations } = request;
  const facts = known.get(decision.windows);
  if (facts?.ban === decision.ban && facts?.cost === cost && facts.operations === operations)
    return facts;
  const found = refusalFacts(decision, request);
  known.set(decision.windows, found);
  return found;
}

function refusalFacts(decision: QuotaDecision, request: RefusedRequest): RefusalFacts {
  const { cost, operations, by } = request;
  const { windows, ban, nowMs } = decision;
  const { code, rateLimitInfo } = rateLimitRefusal(
    decision,
    nowMs,
    cost,
    operations,
  ) as RateLimitRefusal;
  const told = withoutUnknown(decision).windows.filter(({ observed }) => !observed);
  const logged = {
    windows: told.map(({ used, limit, resetMs, ...window }) => {
      return [windowLabel(window), used, limit, roundUpToSeconds(resetMs)] as const;
    }),
    holds: refusedHolds(decision),
    monthFrom: monthFrom(decision),
    by,
    ban: ban && roundUpToSeconds(ban.untilMs),
  };
  const message = code === "key_banned" ? {} : { message: limitExceededMessage(rateLimitInfo) };
  const repeated = by === "memory" ? { repeated: { parts: undefined } } : {};
  const refusal = refuse(code, undefined, { ...message, ...repeated });
  return {
    ban,
    cost,
    operations,
    code,
    rateLimitInfo,
    isMetered: windows.some(isMeter),
    logged,
    refusal,
  };
}

/** By meter: the units that the request would have held; undefined if it has no meters. */
function refusedHolds({ windows }: QuotaDecision): Record<string, number> | undefined {
  const held = heldUnits(windows);
  if (held.length === 0) return undefined;
  return Object.fromEntries(held.map(({ name, units }) => [name, units]));
}

/** The start of the account's month in Unix seconds, if it is not the first day. */
function monthFrom({ windows }: QuotaDecision): number | undefined {
  const month = windows.find(({ calendar }) => calendar !== undefined);
  return month && usageStart(month) / 1_000;
}
