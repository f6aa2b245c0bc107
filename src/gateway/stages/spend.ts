import { policyField } from "../../core/http/fields.ts";
import {
  admittedStanding,
  refusalAt,
  type Standing,
  type StandingRefusal,
  untouchedStanding,
  usedUpMessage,
} from "../../core/quota/standing.ts";
import { accept, type Judged, refuse } from "../../core/refusal.ts";
import type { Answer, NoAnswer } from "../../stores/interface/quota-store.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { Gateway, Served } from "../exchange/served.ts";
import type { Consumer } from "./authenticate.ts";

/**
 * Decides the ban and the quotas together and atomically (docs/reference/http.md#quotas). The
 * exchange learns the decision and the charge, and where the account stands.
 */
export function spend(
  gateway: Gateway,
  served: Served,
  consumer: Consumer,
  exchange: Exchange,
): Judged<Standing> | Promise<Judged<Standing>> {
  const { limits } = consumer;
  if (served.rateLimitFields === "policy") exchange.announce(policyField(limits));
  if (limits.length === 0) return refuse("plan_missing", `plan ${consumer.key.plan}`);
  const ask = { limits, bans: served.bans, units: 1 };

  const settle = (answer: Answer | NoAnswer): Judged<Standing> => {
    if (!("unavailable" in answer)) {
      if (answer.by === "local") gateway.onWithoutStore("local");
      if (answer.earned !== undefined) gateway.onBan(consumer.environment);
      return judgeAnswer(answer, exchange);
    }
    gateway.onWithoutStore("unavailable");
    const last = gateway.quotas.lastKnown(consumer, limits);
    const standing =
      last === undefined ? untouchedStanding(limits, gateway.now()) : admittedStanding(last);
    exchange.stand(standing);
    return refuse("store_unavailable", "the rate limit store is away");
  };
  const answer = gateway.quotas.spend(consumer, ask);
  return answer instanceof Promise ? answer.then(settle) : settle(answer);
}

function judgeAnswer(answer: Answer, exchange: Exchange): Judged<Standing> {
  const { verdict, admitted, unspent, by } = answer;
  const { strikes } = verdict;
  const decidedMs = verdict.nowMs;
  if (admitted) {
    const standing = admittedStanding(verdict, unspent);
    const { cost: charged } = exchange;
    exchange.decide({ decision: "admitted", charged, standing, decidedMs, strikes });
    return accept(standing);
  }
  const refusal = refusalAt(verdict, decidedMs) as StandingRefusal;
  const { standing } = refusal;
  const windows = verdict.windows.map(({ window, used, limit, resetMs }) => {
    return [window, used, limit, Math.ceil(resetMs / 1_000)] as const;
  });
  exchange.decide({
    ...{ decision: "refused", charged: 0, standing, decidedMs, strikes },
    refusal: { windows, by },
  });
  if (refusal.code === "key_banned") return refuse(refusal.code);
  return refuse(refusal.code, undefined, { message: usedUpMessage(refusal.standing) });
}
