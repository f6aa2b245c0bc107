import type { Ban } from "../../core/quota/bans.ts";
import type { QuotaDecision, QuotaRequest } from "../../core/quota/decide.ts";
import type { AccountRef } from "../quotas/account-ref.ts";
import type { QuotaAdmin } from "../quotas/quota-store.ts";

type ReadAccount = { readonly decision: QuotaDecision; readonly lostBan: Ban | undefined };

/**
 * Reads an account, with the ban by which this process refuses it although the store has none. It was
 * known before and is after: a ban that is earned or lifted while the store answers is not lost. Nor
 * is one that has ended by the clock of the store, which this process knows a little late.
 */
export async function readWithLostBan(
  quotas: Pick<QuotaAdmin, "knownBan">,
  accountRef: AccountRef,
  bans: QuotaRequest["bans"],
  read: () => Promise<QuotaDecision>,
): Promise<ReadAccount> {
  const before = bans && quotas.knownBan(accountRef);
  const decision = await read();
  const known =
    before === undefined || decision.ban !== undefined ? undefined : quotas.knownBan(accountRef);
  const isLost = known !== undefined && known.untilMs > decision.nowMs;
  return { decision, lostBan: isLost ? known : undefined };
}
