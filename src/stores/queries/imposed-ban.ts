import type { Config } from "../../config/config.ts";
import { effectiveLimits } from "../../core/keys/records.ts";
import type { UsageSubject } from "../../core/keys/usage-reports.ts";
import { roundUpToSeconds } from "../../core/quota/whole-seconds.ts";
import { WINDOW_NAMES } from "../../core/quota/windows.ts";
import type { Log } from "../../telemetry/log/log.ts";
import type { BanEvent, ImposedBan } from "../quotas/admin-changes.ts";

/** The ban that an operator imposes, expressed by the longest window; or why there can be none. */
export function imposedBan(
  { bans, plans }: Pick<Config, "bans" | "plans">,
  { account, plan, limits }: UsageSubject,
  { lengthMs, reason = "" }: { readonly lengthMs: number; readonly reason?: string | undefined },
): ImposedBan | string {
  if (bans === undefined) return "Bans are off: set bans in the configuration";
  const named = plans.get(plan);
  const windows = new Set(effectiveLimits(named ?? [], limits).map(({ window }) => window));
  const window = WINDOW_NAMES.findLast((name) => windows.has(name));
  if (window === undefined) return `The plan of account ${account} is not configured`;
  return { lengthMs, window, keptMs: bans.forgetAfterMs, plan, reason };
}

/** The words for a lift that found no ban. With a shared store, each gateway is told to forget its own. */
export function notBannedMessage({ store }: Pick<Config, "store">, account: string): string {
  if (store.kind === "memory") return `Account ${account} is not banned`;
  return `Account ${account} is not banned in the store; gateways that knew a ban of it forget it`;
}

/** Logs that an operator imposed or lifted a ban. */
export function logBanByHand(
  log: Pick<Log, "info" | "warn">,
  { accountRef: { account, environment: env }, atMs: decidedAt, imposed }: BanEvent,
): void {
  if (imposed === undefined) {
    log.info("ban_lifted", { account, env, decidedAt });
    return;
  }
  const { plan, window, untilMs, offences, reason } = imposed;
  log.warn("ban", {
    ...{ account, env, plan, window, offences, decidedAt },
    ...{ until: roundUpToSeconds(untilMs), imposed: true, reason },
  });
}
