import type { Config } from "../../config/config.ts";
import type { KeyRecord } from "../../core/keys/records.ts";
import { banWindow, windowLabel } from "../../core/quota/rate-limit-info.ts";
import { roundUpToSeconds } from "../../core/quota/whole-seconds.ts";
import { costIn, isCap } from "../../core/quota/windows.ts";
import { logBanByHand } from "../../stores/queries/imposed-ban.ts";
import { logReset } from "../../stores/queries/reset-windows.ts";
import { isAddressAccount } from "../../stores/quotas/account-ref.ts";
import type { AdminEvent } from "../../stores/quotas/admin-changes.ts";
import type {
  ChargeResult,
  LateBan,
  LateUsage,
  QuotaAdmin,
} from "../../stores/quotas/quota-store.ts";
import type { Log } from "../../telemetry/log/log.ts";
import type { OverageEvents } from "./overage-events.ts";

/** The account of a request. */
type Owner = {
  readonly environment: string;
  readonly account: string;
  readonly plan: string;
  /** Undefined for a request without credentials, which is charged to an address. */
  readonly key: { readonly id: string } | undefined;
};

/** Percentages of a limit whose first use is an event (docs/reference/events.md#kinds). */
const TOLD_PERCENT = [80, 100];

/** Logs the ban that a request caused, with its strikes, whichever gateways saw them. */
export function logBanEvent(
  log: Log,
  { environment: env, account, plan }: Omit<Owner, "key">,
  { earned, decision }: Pick<ChargeResult, "earned" | "decision">,
): void {
  if (earned === undefined) return;
  const { nowMs: decidedAt, ban } = decision;
  // A ban may be reported with a request for another operation than that of its strikes.
  const struck = banWindow(decision.windows, earned);
  const window = struck === undefined ? earned.window : windowLabel(struck);
  log.warn("ban", {
    ...{ account, env, plan, window, offences: earned.offences, decidedAt },
    until: roundUpToSeconds(earned.untilMs),
    strikes: earned.strikesMs.map((atMs) => atMs / 1000),
    ...(ban === undefined && { observed: true }),
  });
}

/** Logs a ban whose decision came when its request had its answer already. */
export function logLateBan(log: Log, { accountRef, plan = "", decision, earned }: LateBan): void {
  const { environment, account } = accountRef;
  logBanEvent(log, { environment, account, plan }, { decision, earned });
}

type QuotaEventTerms = Pick<Config, "quotaEventWindows" | "planBounds">;
type QuotaEventLogs = { readonly log: Log; readonly overages: Pick<OverageEvents, "count"> };

/**
 * Logs each limit of which a request used up 80 or 100 %. The counts before and after the request
 * decide this, so no two gateways log the same. A request that crosses both is logged with 100.
 * Only `quotaEventWindows` are logged, because short windows would be logged all the time.
 */
export function logQuotaEvents(
  { log, overages }: QuotaEventLogs,
  { quotaEventWindows, planBounds }: QuotaEventTerms,
  owner: Owner,
  result: ChargeResult,
  cost: number,
): void {
  const { environment: env, account, plan } = owner;
  const { decision, admitted, requestsAfter, by } = result;
  // During an outage a share is not a limit of the account. Addresses are too many to log.
  if (owner.key === undefined || !admitted || by !== "store") return;
  for (const counted of decision.windows) {
    const { observed, limit, used: usedByAll, resetMs, loweredFrom = 0 } = counted;
    const units = costIn(counted, cost);
    const used = usedByAll - requestsAfter * units;
    // Units that were taken back were logged already.
    const was = Math.max(used - units, loweredFrom);
    overages.count(planBounds, owner, { window: counted, was, used });
    // This is the hot path: most requests cross nothing.
    if (observed || used * 100 < limit * (TOLD_PERCENT[0] as number)) continue;
    const percent = TOLD_PERCENT.findLast((part) => {
      const least = Math.ceil((limit * part) / 100);
      return used >= least && was < least;
    });
    if (percent === undefined || !quotaEventWindows.includes(counted.window)) continue;
    const [window, reset] = [windowLabel(counted), roundUpToSeconds(resetMs)];
    const capped = isCap(counted) ? { key: counted.part?.key } : {};
    log.info("quota", { account, env, plan, ...capped, window, percent, used, limit, reset });
  }
}

/** Logs a limit of which units that were charged late used up 80 or 100 %. */
export function lateQuotaLogger(logs: QuotaEventLogs, inForce: () => QuotaEventTerms) {
  return ({ accountRef, plan = "", usage }: LateUsage): void => {
    // The units were counted already: a hold would be taken for them.
    const { from, hold: _, ...standing } = usage;
    const decision = { ...NOTHING_DECIDED, windows: [standing] };
    const answer = { decision, requestsAfter: 0, admitted: true, by: "store" } as const;
    const { environment, account } = accountRef;
    const key = isAddressAccount(accountRef) ? undefined : { id: "" };
    const owner = { environment, account, plan, key };
    logQuotaEvents(logs, inForce(), owner, answer, standing.used - from);
  };
}

const NOTHING_DECIDED = {
  ...{ nowMs: 0, granted: 0, ban: undefined, strikes: 0, strikeDueMs: 0, repaired: false },
};

/** Logs a reset or a ban that a command made in the store, as the admin API logs its own. */
export function adminEventLogger(
  log: Log,
  config: () => Pick<Config, "environments">,
  keys: () => readonly KeyRecord[],
) {
  return (event: AdminEvent): void => {
    if (!("windows" in event)) logBanByHand(log, event);
    else {
      const { atMs: resetAt, ...reset } = event;
      logReset(log, { ...reset, resetAt }, config(), keys());
    }
  };
}

/** A marker of one day lasts longer than the day, however the clocks of gateways differ. */
const ELSEWHERE_MS = 26 * 3_600_000;

/** Logs that a key works elsewhere, if no other gateway has logged it on that day. */
export async function logKeyElsewhere(
  { log, quotas }: { readonly log: Log; readonly quotas: Pick<QuotaAdmin, "markFirst"> },
  { id: key, account, environment: env }: KeyRecord,
  { usedIn, day }: { readonly usedIn: string; readonly day: number },
): Promise<void> {
  // Without a store no gateway knows the events of the others. A repeated event is better than
  // none.
  const isFirst = await quotas.markFirst(`elsewhere ${key} ${day}`, ELSEWHERE_MS).catch(() => true);
  if (isFirst) log.warn("key_elsewhere", { key, account, env, usedIn });
}
