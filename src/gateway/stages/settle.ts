import type { MeterUse } from "../../core/quota/meters.ts";
import type { GatewayContext } from "../exchange/environment.ts";
import type { Exchange } from "../exchange/exchange.ts";

/**
 * Settles what a request used of its meters, once, when its answer has ended or was cut
 * (docs/reference/meters.md#settlement). A meter that `used` does not name keeps its hold. Does
 * nothing if the request took nothing, or is settled already.
 */
export function settleMeters(
  { quotas, holds }: GatewayContext,
  exchange: Exchange,
  used: readonly MeterUse[],
): void {
  const taken = exchange.takeHolds();
  if (taken === undefined) return;
  holds.remove(taken.accountRef, taken.holds);
  quotas.settle(taken.accountRef, taken.holds, used);
}
