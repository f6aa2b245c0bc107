import { isPreflight } from "../core/http/cors.ts";
import { forwardsLeft } from "../core/http/head.ts";
import { checkRoute } from "../core/http/route.ts";
import { upstreamTarget } from "../core/http/target.ts";
import type { Result } from "../core/refusal.ts";
import type { Environment, GatewayContext, Service } from "./exchange/environment.ts";
import type { Exchange } from "./exchange/exchange.ts";
import { forward } from "./forward/forward.ts";
import { type Caller, identify } from "./stages/authenticate.ts";
import { chargeQuota } from "./stages/charge.ts";
import { checkAddress, checkMaintenance, type RoutedRequest, receive } from "./stages/receive.ts";
import { sendOptions, sendPreflight, sendRefusal } from "./stages/reply.ts";
import { isStandingRequest, sendStandingReport } from "./stages/standing-report.ts";
import { openTunnel } from "./tunnel/tunnel.ts";

/**
 * Handles a whole request, top to bottom (docs/reference/http.md#order): framing, key, ban and
 * quota, route, forward. Each line judges or refuses. A request that one of the first three refuses
 * costs nothing. From the route on a request is charged, whatever its response
 * (docs/reference/http.md#charging). Returns a promise only if something is waited for: a refusal
 * that is known at once is answered at once.
 */
export function handle(
  gateway: GatewayContext,
  environments: readonly Environment[],
  exchange: Exchange,
): Promise<void> | undefined {
  const received = receive(gateway, environments, exchange);
  if (!received.ok) return sendRefusal(gateway, exchange, received.refusal);
  const { environment, head, target } = received.value;
  const address = checkAddress(environment, exchange);
  if (!address.ok) return sendRefusal(gateway, exchange, address.refusal);
  if (target.raw === "*") return sendOptions(gateway, exchange);
  if (environment.cors !== undefined && isPreflight(head)) return sendPreflight(gateway, exchange);
  const open = checkMaintenance(environment);
  if (!open.ok) return sendRefusal(gateway, exchange, open.refusal);

  const caller = identify(gateway, received.value, exchange);
  if (!caller.ok) return sendRefusal(gateway, exchange, caller.refusal);
  exchange.identify(caller.value);
  if (isStandingRequest(environment, exchange)) {
    return sendStandingReport(gateway, exchange, environment, caller.value);
  }

  const decided = chargeQuota(gateway, environment, caller.value, exchange);
  const charged = { gateway, exchange, request: received.value, caller: caller.value };
  if (!(decided instanceof Promise)) return answerDecided(charged, decided);
  return decided.then((result) => answerDecided(charged, result));
}

type ChargedRequest = {
  readonly gateway: GatewayContext;
  readonly exchange: Exchange;
  readonly request: RoutedRequest;
  readonly caller: Caller;
};

/** The rest of `handle`, once the store has decided. */
function answerDecided(
  { gateway, exchange, request, caller }: ChargedRequest,
  decided: Result<void>,
): Promise<void> | undefined {
  // The client left while the store decided. Its log line has the charge; no response is sent.
  if (exchange.isOver) return undefined;
  if (!decided.ok) return sendRefusal(gateway, exchange, decided.refusal);

  const { environment, head, target, found, upgrade } = request;
  const { scopes } = caller;
  const route = checkRoute(found, { method: head.method, scopes, nowMs: gateway.machineNow() });
  if (!route.ok) return sendRefusal(gateway, exchange, route.refusal);

  if (exchange.requestError !== undefined)
    return sendRefusal(gateway, exchange, exchange.requestError);
  if (forwardsLeft(head) === 0) return sendOptions(gateway, exchange, found.allowedMethods);
  // A route was found, so a service has it.
  const service = request.service as Service;
  const admitted = {
    gateway,
    exchange,
    environment,
    service,
    head,
    target: upstreamTarget(target.raw, service),
    caller,
  };
  if (upgrade === undefined) forward(admitted);
  else openTunnel(admitted, upgrade);
  return undefined;
}
