import { accept, type Result } from "../../core/refusal.ts";
import type { AnonymousClient } from "../client/anonymous-clients.ts";
import type { GatewayContext } from "../exchange/environment.ts";
import type { Exchange } from "../exchange/exchange.ts";
import { authenticate, type Consumer } from "./authenticate.ts";
import type { RoutedRequest } from "./receive.ts";

/** The account that a request is charged to: that of its key, or that of a client address. */
export type Caller = Consumer | AnonymousClient;

/**
 * Finds whose request it is. Credentials that are there are always judged; without any, a public
 * operation is charged to the client address (docs/reference/plans.md#public-operations).
 */
export function identify(
  gateway: GatewayContext,
  { served, head, found }: RoutedRequest,
  { arrival }: Exchange,
): Result<Caller> {
  const consumer = authenticate(gateway, served, { head, client: arrival.client });
  if (consumer.ok || consumer.refusal.code !== "key_missing") return consumer;
  const { publicTerms } = served;
  if (publicTerms === undefined || !found.isPublic) return consumer;
  return accept(gateway.visitors.at(publicTerms, arrival.client, gateway.elapsed()));
}
