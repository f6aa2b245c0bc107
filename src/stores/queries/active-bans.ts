import type { Config } from "../../config/config.ts";
import type { Records } from "../../core/keys/records.ts";
import { findUsageSubject } from "../../core/keys/usage-reports.ts";
import type { AccountRef } from "../quotas/account-ref.ts";
import type { AccountBan, MissingPart, OnMissing, QuotaAdmin } from "../quotas/quota-store.ts";

/** Every ban in force: none while bans are off, though a store keeps those that it has. */
export async function activeBans(
  quotas: Pick<QuotaAdmin, "bans">,
  { bans }: Pick<Config, "bans">,
  onMissing?: OnMissing,
): Promise<AccountBan[]> {
  return bans === undefined ? [] : quotas.bans(onMissing);
}

/**
 * The account that an ID names to have its ban lifted. A ban may outlive the record of its account: then
 * the account's own name finds it. Rejects if none is found while a part of the store cannot be reached:
 * that part may have it.
 */
export async function findBanned(
  quotas: Pick<QuotaAdmin, "bans">,
  records: Records,
  id: string,
): Promise<AccountRef | undefined> {
  const subject = findUsageSubject(records, id);
  if (subject !== undefined) return subject;
  const missing: MissingPart[] = [];
  const bans = await quotas.bans((part) => missing.push(part));
  const found = bans.find(({ account }) => account === id);
  const [part] = missing;
  if (found !== undefined || part === undefined) return found;
  throw new Error(`${part.why} (buckets ${part.buckets.join(", ")} at ${part.node})`);
}
