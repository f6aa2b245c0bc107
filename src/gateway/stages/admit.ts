import { accept, type Judged, refuse } from "../../core/refusal.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { Served } from "../exchange/served.ts";

/**
 * Judges the client's address by `deny` and `allow`: ahead of everything that is answered here, and
 * uncharged (docs/reference/plans.md#admission).
 */
export function judgeAddress({ takesAddress }: Served, { arrival }: Exchange): Judged<void> {
  return takesAddress(arrival.client) ? accept(undefined) : refuse("address_refused");
}

/** Refuses every request of an environment under maintenance, ahead of its key, and uncharged. */
export function judgeMaintenance({ maintenance }: Served): Judged<void> {
  if (maintenance === undefined) return accept(undefined);
  const { retryAfterSeconds } = maintenance;
  return refuse("maintenance", undefined, { retryAfterSeconds });
}
