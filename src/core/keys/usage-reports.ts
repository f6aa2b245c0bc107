import type { Ban } from "../quota/bans.ts";
import type { Calendar } from "../quota/calendar.ts";
import type { QuotaDecision, WindowUsage } from "../quota/decide.ts";
import { windowLabel } from "../quota/rate-limit-info.ts";
import { roundUpToSeconds } from "../quota/whole-seconds.ts";
import {
  isCap,
  isMeter,
  type Limit,
  type PlanOptions,
  usageStart,
  type WindowName,
} from "../quota/windows.ts";
import { type AccountCaps, capLimits, keysOfWindow } from "./caps.ts";
import { findAccount } from "./find-records.ts";
import { findById } from "./record-index.ts";
import type { AccountLimit, Records } from "./records.ts";

/**
 * The shapes in which usage and bans are shown to people and programs, made here once for the
 * command line and the admin listener (docs/reference/commands.md#json). Instants are Unix seconds.
 */
export type UsageReport = {
  readonly account: string;
  readonly environment: string;
  readonly plan: string;
  /**
   * The windows of the plan, of its meters: `tokens.month`, of operations that count something:
   * `createPet.minute`, and of the key: `key.day`.
   */
  readonly windows: readonly WindowReport[];
  /** Limits of the plan that only observe; absent if it has none. */
  readonly observed?: readonly WindowReport[];
  readonly strikes: number;
  readonly ban: ReportedBan | null;
};

/** `lost`: a gateway refuses the account by this ban, and the store does not have it. */
type ReportedBan = { readonly until: number; readonly offences: number; readonly lost?: true };

export type WindowReport = {
  readonly window: string;
  readonly limit: number;
  readonly used: number;
  readonly remaining: number;
  readonly reset: number;
  /** Units in the price, and those above them; absent if the plan includes none of this window. */
  readonly included?: number;
  readonly overage?: number;
};

/**
 * The counts of an account at one instant, for an audit. Instants are Unix milliseconds of the
 * store's clock. `created` is of the clock that made the record; it is null for an address, which
 * has no record.
 */
export type CountReport = {
  readonly account: string;
  readonly environment: string;
  readonly plan: string;
  readonly created: number | null;
  /** The instant at which the store was asked. */
  readonly at: number;
  /** Whether a window or the ban was in the future and is told as of now: the clock went back. */
  readonly moved?: true;
  /** All current windows, with those of operations. `to` is the first instant after each. */
  readonly windows: readonly {
    readonly window: string;
    readonly used: number;
    readonly from: number;
    readonly to: number;
    /** The keys that it counts; absent if it counts all. */
    readonly keys?: readonly string[];
    /** Keys that it may have counted before their caps were changed; absent without any. */
    readonly formerKeys?: readonly string[];
  }[];
};

export type BanReport = ReportedBan & {
  readonly account: string;
  readonly environment: string;
};

/**
 * The owner of a usage report: an account with its one environment, plan and set of limits
 * (docs/reference/keys.md#accounts).
 */
export type UsageSubject = {
  readonly account: string;
  readonly environment: string;
  readonly plan: string;
  readonly limits: readonly AccountLimit[];
  readonly calendar?: Calendar | undefined;
  /** Limits of the requested key. */
  readonly caps?: readonly Limit[] | undefined;
};

/** The account that `id` names: an account, or one of its keys. Undefined for an unknown id. */
export function findUsageSubject(records: Records, id: string): UsageSubject | undefined {
  const found = findAccount(records, id);
  if (found === undefined) return undefined;
  const { environment, plan, limits, calendar } = found;
  const key = findById(records.keys, id);
  const caps = key === undefined ? [] : capLimits(key);
  return {
    ...{ account: found.id, environment, plan, limits },
    ...(calendar && { calendar }),
    ...(caps.length > 0 && { caps }),
  };
}

type UsageReportOptions = Partial<Pick<PlanOptions, "observe" | "included">> & {
  readonly lostBan?: Ban | undefined;
};

/**
 * `decision` is the store's answer to a peek at the account, in the windows of its plan and of any
 * operations. `observe` are the limits of its plan that refuse nothing. `included` are the units of
 * its windows that are included in the price. `lostBan` is a ban that the store does not have.
 */
export function usageReport(
  { account, environment, plan }: Omit<UsageSubject, "limits">,
  decision: QuotaDecision,
  { observe = [], included = [], lostBan }: UsageReportOptions = {},
): UsageReport {
  const windows = decision.windows
    .filter((one) => !one.observed && (isOfAccount(one) || one.used > 0))
    .map((one): WindowReport => {
      const units = one.part === undefined ? includedOf(included, one.window) : undefined;
      if (units === undefined) return windowReport(one);
      return { ...windowReport(one), included: units, overage: Math.max(0, one.used - units) };
    });
  const observed = observe.flatMap(({ window, limit }) => {
    const counted = decision.windows.find((one) => one.window === window && !one.part);
    return counted === undefined ? [] : [windowReport({ ...counted, limit })];
  });
  const { ban = lostBan, strikes } = decision;
  const isLost = decision.ban === undefined;
  return {
    ...{ account, environment, plan, windows },
    ...(observed.length === 0 ? {} : { observed }),
    strikes,
    ban: ban === undefined ? null : reportedBan(ban, isLost),
  };
}

function reportedBan({ untilMs, offences }: Ban, isLost = false): ReportedBan {
  const until = roundUpToSeconds(untilMs);
  return { until, offences, ...(isLost && { lost: true }) };
}

/** Whether a window is shown before anything is used: one of a plan, a key or a meter. */
function isOfAccount(one: Pick<Limit, "part">): boolean {
  return one.part === undefined || isCap(one) || isMeter(one);
}

/** Units of the window that a plan's price includes; undefined if it includes none. */
export function includedOf(included: readonly Limit[], name: WindowName): number | undefined {
  return included.find(({ window }) => window === name)?.limit;
}

/**
 * `decision` is the store's answer to a peek, as for a usage report. `capped` are the keys with caps,
 * by the id of their part: their windows are named after them, `key.day of k_1`.
 */
export function countReport(
  { account, environment, plan }: Omit<UsageSubject, "limits">,
  { nowMs, windows, moved }: QuotaDecision,
  createdMs: number | undefined,
  capped: AccountCaps["keys"] = new Map(),
): CountReport {
  const counted = windows.map((usage) => {
    const { window, used, resetMs } = usage;
    const from = usageStart(usage);
    const sharing = usage.part && capped.get(usage.part.id);
    const label = windowLabel(usage);
    const told = { window: label, used, from, to: resetMs };
    if (sharing === undefined) return told;
    const of = keysOfWindow(sharing, window, from);
    return { ...told, window: `${label} of ${of.keys.join(", ")}`, ...of };
  });
  const told = { account, environment, plan, created: createdMs ?? null, at: nowMs };
  return { ...told, ...(moved && { moved: true }), windows: counted };
}

function windowReport(usage: WindowUsage): WindowReport {
  const { limit, used, resetMs } = usage;
  const remaining = Math.max(0, limit - used);
  return {
    window: windowLabel(usage),
    limit,
    used,
    remaining,
    reset: roundUpToSeconds(resetMs),
  };
}

type AccountBan = {
  readonly account: string;
  readonly environment: string;
  readonly ban: Ban;
  readonly isLost?: true;
};

/** Windows of an account that were set to 0, with the units that they had counted. */
export type ResetReport = {
  readonly account: string;
  readonly environment: string;
  readonly windows: readonly { readonly window: string; readonly units: number }[];
};

/** Bans in force; the one that ends last comes first. */
export function bansReport(bans: readonly AccountBan[]): BanReport[] {
  return sortBans(bans).map(({ account, environment, ban, isLost }) => {
    return { account, environment, ...reportedBan(ban, isLost) };
  });
}

export function sortBans(bans: readonly AccountBan[]): AccountBan[] {
  const nameOf = ({ account, environment }: AccountBan) => `${account} ${environment}`;
  return [...bans].sort(
    (a, b) => b.ban.untilMs - a.ban.untilMs || (nameOf(a) < nameOf(b) ? -1 : 1),
  );
}
