import type { Config } from "../../config/config.ts";
import type { AccountBan, OnMissing, QuotaAdmin } from "../quotas/quota-store.ts";

/**
 * Every ban in force: none if bans are off, because a store keeps the bans that it has until a reload
 * turns them on again.
 */
export async function activeBans(
  quotas: Pick<QuotaAdmin, "bans">,
  { bans }: Pick<Config, "bans">,
  onMissing?: OnMissing,
): Promise<AccountBan[]> {
  return bans === undefined ? [] : quotas.bans(onMissing);
}
