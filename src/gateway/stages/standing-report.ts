import { gatewayFields } from "../../core/http/gateway-fields.ts";
import { isSuspended } from "../../core/keys/records.ts";
import { usageReport } from "../../core/keys/usage-reports.ts";
import { meterWindows } from "../../core/quota/meters.ts";
import { isCap, type Limit, mergeLimits, sortByLength } from "../../core/quota/windows.ts";
import { readWithLostBan } from "../../stores/queries/lost-ban.ts";
import type { DeprecatedCall } from "../../telemetry/history/deprecated-calls.ts";
import {
  type Environment,
  type GatewayContext,
  hasDeprecated,
  isStandingPath,
  operationLimits,
  STANDING_METHODS,
} from "../exchange/environment.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { Caller } from "./authenticate.ts";
import { standAsKnown } from "./charge.ts";
import { closeIfDraining, sendRefusal } from "./reply.ts";

/** Whether the request asks for the standing of its own account, and for nothing of a service. */
export function isStandingRequest(environment: Environment, { request, path }: Exchange): boolean {
  return STANDING_METHODS.includes(request.method as string) && isStandingPath(environment, path);
}

/**
 * Reports the standing of the caller's account. This is not charged and works while the account is
 * limited or banned (docs/reference/plans.md#standing). A suspended account is refused as usual.
 */
export async function sendStandingReport(
  gateway: GatewayContext,
  exchange: Exchange,
  served: Environment,
  caller: Caller,
): Promise<void> {
  const { limits, owner, account, plan, environment } = caller;
  if (limits.length === 0) {
    return sendRefusal(gateway, exchange, { code: "plan_missing", why: `plan ${plan}` });
  }
  const { observe = [], included = [] } = served.planBounds.get(plan) ?? {};
  const calendar = owner?.calendar;
  const caps = limits.filter(isCap);
  const askedMs = gateway.elapsed();
  const peek = (capsOfKeys: readonly Limit[]) => askStore(gateway, served, caller, capsOfKeys);
  const readCalls = async () => (hasDeprecated(served) ? gateway.deprecatedCalls?.(caller) : []);
  const asking = gateway.usageReports.ask(caller.id, askedMs, peek, { caps, readCalls });
  const answer = await asking.catch(() => undefined);
  exchange.addStoreTime(gateway.elapsed() - askedMs);
  if (exchange.isOver) return;
  // An answer that is told again may be older than what was decided since.
  const asked = { environment: served, caller, limits: mergeLimits(limits, { calendar }) };
  standAsKnown(gateway, exchange, asked, answer?.decision);
  if (answer === undefined) {
    return sendRefusal(gateway, exchange, { code: "store_unavailable", why: "no answer" });
  }
  const windows = answer.decision.windows.filter((one) => {
    return !isCap(one) || one.part?.id === caps[0]?.part?.id;
  });
  if (owner !== undefined && isSuspended(owner, gateway.now())) {
    return sendRefusal(gateway, exchange, { code: "account_suspended" });
  }
  const body = JSON.stringify({
    ...usageReport(
      { account, environment, plan },
      { ...answer.decision, windows },
      { observe, included, lostBan: answer.lostBan },
    ),
    ...(answer.deprecated && { deprecated: answer.deprecated.map(callReport) }),
  });
  const fields = [
    ...["Content-Type", "application/json", "Content-Length", String(Buffer.byteLength(body))],
    ...["Cache-Control", "no-store", "Age", String(Math.floor(answer.ageMs / 1_000))],
    ...gatewayFields(exchange),
  ];
  closeIfDraining(gateway, exchange);
  if (!exchange.request.complete) exchange.request.resume();
  exchange.response.writeHead(200, fields);
  exchange.response.end(body);
}

async function askStore(
  { quotas }: GatewayContext,
  served: Environment,
  caller: Caller,
  caps: readonly Limit[],
) {
  const { limits, owner, plan } = caller;
  const { observe, meters = [] } = served.planBounds.get(plan) ?? {};
  const operation = operationLimits(served);
  const calendar = owner?.calendar;
  const all = sortByLength([...limits.filter((one) => !isCap(one)), ...caps]);
  const asked = [
    ...mergeLimits(all, { operation, observe, calendar }),
    ...meterWindows({ plan: meters, own: owner?.limits ?? [], calendar }),
  ];
  const bans = caller.key === undefined ? undefined : served.bans;
  const read = () => quotas.read(caller, { limits: sortByLength(asked), bans });
  return readWithLostBan(quotas, caller, bans, read);
}

function callReport({ method, route, requests, last }: DeprecatedCall) {
  return { method, route, requests, last };
}
