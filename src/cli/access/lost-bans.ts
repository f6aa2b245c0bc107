import type { Config } from "../../config/config.ts";
import type { BanReport } from "../../core/keys/usage-reports.ts";
import type { BanReasons } from "../../stores/queries/ban-reasons.ts";
import { accountId } from "../../stores/quotas/account-ref.ts";
import { fetchAdmin, fetchAllPages } from "./admin-client.ts";

/** How long the running gateway may take to read all bans in the store; without an answer, the store's are told. */
const LOST_MS_MAX = 5_000;

/** The bans with those that the running gateway knows and the store has lost, the one that ends last first. */
export async function withBansOfGateway(
  config: Config,
  stored: readonly BanReport[],
): Promise<readonly BanReport[]> {
  const question = { path: "/api/bans?limit=10000&lost=true", withinMs: LOST_MS_MAX };
  const told = await fetchAllPages<BanReport>(config, question);
  if (!told.ok) return stored;
  const nameOf = ({ environment, account }: BanReport) => accountId({ environment, account });
  const names = new Set(stored.map(nameOf));
  const others = told.value.filter((one) => !names.has(nameOf(one)));
  return [...stored, ...others].sort((a, b) => b.until - a.until);
}

/** Whether the running gateway refuses the account by a ban that the store has lost, until it hears of the lift. */
export async function gatewayHoldsBan(config: Config, id: string): Promise<boolean> {
  const path = `/api/bans/${encodeURIComponent(id)}`;
  const question = { path, members: ["account", "lost"], withinMs: 1_000 };
  const told = await fetchAdmin<BanReasons>(config, question);
  return told.ok && told.value.lost !== null;
}
