import type { UsageReport } from "../../core/keys/usage-reports.ts";
import type { QuotaAdmin } from "../quotas/quota-store.ts";

/** A ban in force, and its cause. Instants are whole Unix seconds. */
export type BanInForce = {
  readonly until: number;
  readonly offences: number;
  /** When it began; null if its cause is not known. */
  readonly at: number | null;
  /** Whether an operator imposed it; null if that is not known. */
  readonly imposed: boolean | null;
  /** The operator's words; null if there are none. */
  readonly reason: string | null;
  /** The refusals that earned it. */
  readonly strikes: readonly { readonly at: number }[];
};

/** An account's running strikes, and its ban, as the store has them: the same for every reader. */
export type BanReasons = {
  readonly account: string;
  readonly environment: string;
  readonly strikes: number;
  readonly ban: BanInForce | null;
};

/** Rejects while the store is unreachable. */
export async function readBanReasons(
  quotas: Pick<QuotaAdmin, "banCause">,
  { account, environment, strikes, ban }: UsageReport,
): Promise<BanReasons> {
  const own = { account, environment, strikes };
  if (ban === null) return { ...own, ban };
  const cause = await quotas.banCause({ account, environment });
  if (cause === undefined || Math.ceil(cause.untilMs / 1_000) !== ban.until) {
    return { ...own, ban: { ...ban, at: null, imposed: null, reason: null, strikes: [] } };
  }
  const { atMs, imposed, reason, strikesMs } = cause;
  const begin = (ms: number) => ({ at: Math.floor(ms / 1_000) });
  const told = { ...begin(atMs), imposed, reason: reason === "" ? null : reason };
  return { ...own, ban: { ...ban, ...told, strikes: strikesMs.map(begin) } };
}
