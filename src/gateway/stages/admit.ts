import { accept, type Result, refuse } from "../../core/refusal.ts";
import type { Environment } from "../exchange/environment.ts";
import type { Exchange } from "../exchange/exchange.ts";

/**
 * Judges the client's address by `deny` and `allow`: ahead of everything that is answered here, and
 * uncharged (docs/reference/plans.md#admission).
 */
export function checkAddress({ takesAddress }: Environment, { arrival }: Exchange): Result<void> {
  return takesAddress(arrival.client) ? accept(undefined) : refuse("address_refused");
}

/** Refuses every request of an environment under maintenance, ahead of its key, and uncharged. */
export function checkMaintenance({ maintenance }: Environment): Result<void> {
  if (maintenance === undefined) return accept(undefined);
  const { retryAfterSeconds } = maintenance;
  return refuse("maintenance", undefined, { retryAfterSeconds });
}
