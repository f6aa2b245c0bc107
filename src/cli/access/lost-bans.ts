import type { Config } from "../../config/config.ts";
import type { BanReport, UsageReport } from "../../core/keys/usage-reports.ts";
import type { BanReasons, LostBan } from "../../stores/queries/ban-reasons.ts";
import { type AccountRef, accountId } from "../../stores/quotas/account-ref.ts";
import { fetchAdmin, fetchAllPages } from "./admin-client.ts";

/** How long the running gateway may take to read all bans in the store; without an answer, the store's are told. */
const LOST_MS_MAX = 5_000;

/** The bans with those that the running gateway knows and the store does not have, the one that ends last first. */
export async function withBansOfGateway(
  config: Config,
  stored: readonly BanReport[],
): Promise<readonly BanReport[]> {
  const names = new Set(stored.map(accountId));
  const others = (await lostBans(config)).filter((one) => !names.has(accountId(one)));
  return [...stored, ...others].sort((a, b) => b.until - a.until);
}

/** The reports with the bans that the running gateway knows and the store does not have. */
export async function withLostBans(
  config: Config,
  reports: readonly UsageReport[],
): Promise<readonly UsageReport[]> {
  if (config.bans === undefined || reports.every(({ ban }) => ban !== null)) return reports;
  const lost = new Map((await lostBans(config)).map((one) => [accountId(one), one]));
  return reports.map((report) => withBan(report, lost.get(accountId(report))));
}

/** The report with the ban that the running gateway knows of its account and the store does not have. */
export async function withLostBan(config: Config, report: UsageReport): Promise<UsageReport> {
  if (config.bans === undefined || report.ban !== null) return report;
  return withBan(report, await lostBanOf(config, report.account));
}

/** The ban that the store does not have and by which the running gateway refuses the account until it hears of a lift. */
export async function lostBanOf(config: Config, id: string): Promise<LostBan | undefined> {
  const path = `/api/bans/${encodeURIComponent(id)}`;
  const question = { path, members: ["account", "lost"], withinMs: 1_000 };
  const told = await fetchAdmin<BanReasons>(config, question);
  return told.ok ? (told.value.lost ?? undefined) : undefined;
}

/** The bans that the store does not have and the running gateway knows; none if it does not answer. */
async function lostBans(config: Config): Promise<readonly BanReport[]> {
  const question = { path: "/api/bans?limit=10000&lost=true", withinMs: LOST_MS_MAX };
  const told = await fetchAllPages<AccountRef & LostBan>(config, question);
  return told.ok ? told.value.map((one) => ({ ...one, lost: true })) : [];
}

function withBan(report: UsageReport, lost: LostBan | undefined): UsageReport {
  if (report.ban !== null || lost === undefined) return report;
  return { ...report, ban: { until: lost.until, offences: lost.offences, lost: true } };
}
