import type { UsageReport } from "../../core/keys/usage-reports.ts";
import { roundUpToSeconds } from "../../core/quota/whole-seconds.ts";
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

/**
 * A ban by which a gateway refuses an account although the store has none: the store lost the ban, or
 * was unreachable when the ban was earned.
 */
export type LostBan = { readonly until: number; readonly offences: number };

/**
 * An account's running strikes, and its ban, as the store has them: the same for every reader.
 * `lost` is what the process that was asked knows beside them.
 */
export type BanReasons = {
  readonly account: string;
  readonly environment: string;
  readonly strikes: number;
  readonly ban: BanInForce | null;
  readonly lost: LostBan | null;
};

/** Rejects while the store is unreachable. */
export async function readBanReasons(
  quotas: Pick<QuotaAdmin, "banCause">,
  { account, environment, strikes, ban }: UsageReport,
): Promise<BanReasons> {
  const own = { account, environment, strikes, lost: null };
  if (ban === null) return { ...own, ban };
  const { until, offences } = ban;
  if (ban.lost) return { ...own, ban: null, lost: { until, offences } };
  const cause = await quotas.banCause({ account, environment });
  if (cause === undefined || roundUpToSeconds(cause.untilMs) !== until) {
    return { ...own, ban: { until, offences, at: null, imposed: null, reason: null, strikes: [] } };
  }
  const { atMs, imposed, reason, strikesMs } = cause;
  const begin = (ms: number) => ({ at: Math.floor(ms / 1_000) });
  const told = { ...begin(atMs), imposed, reason: reason === "" ? null : reason };
  return { ...own, ban: { until, offences, ...told, strikes: strikesMs.map(begin) } };
}
