import {
  type Ban,
  type BanPolicy,
  banAt,
  earnedBan,
  type NewBan,
  nextStrikeMs,
  presentBan,
  recentStrikes,
  strikeLifeMs,
} from "./bans.ts";
import { noteRefusals, type WindowCount, withoutMarks } from "./window-count.ts";
import {
  costIn,
  counterName,
  counterWindow,
  fitsLimit,
  type Limit,
  latestEnd,
  mayStrike,
  windowEnd,
  windowStart,
} from "./windows.ts";

/**
 * The stored state of an account; its usage by counter (`counterName`). An ended ban is kept until
 * it is forgotten.
 */
export type AccountState = {
  readonly usage: Readonly<Partial<Record<string, WindowCount>>>;
  readonly strikesMs: readonly number[];
  readonly ban: Ban | undefined;
};

export const NEW_ACCOUNT_STATE: AccountState = { usage: {}, strikesMs: [], ban: undefined };

/**
 * `requests` at once, each with the cost `cost` (default 1; 0 to COST_MAX). Zero requests are a
 * peek, which changes nothing that is not damaged. A cost of 0 asks for the ban and the meters
 * alone. `limits` are those of `mergeLimits`.
 */
export type QuotaRequest = {
  readonly limits: readonly Limit[];
  readonly bans: BanPolicy | undefined;
  readonly requests: number;
  readonly cost?: number;
  /** The name of the account's plan, kept with the usage by day. It decides nothing. */
  readonly plan?: string;
  /**
   * Units of each limit that are reserved for other gateways, in the order of `limits`. Requests
   * are granted up to the rest. A request that does not fit for this reason alone is neither the
   * first refusal of a window nor a strike.
   */
  readonly reserved?: readonly number[] | undefined;
  /**
   * The requests were already refused, by an earlier decision. They may be strikes, and none is
   * granted.
   */
  readonly strikesOnly?: boolean;
};
export const COST_MAX = 1e6;

/**
 * The usage of one window after the decision, in units. `resetMs` is its end. `loweredFrom` is the
 * highest count before units were taken back; it is set until the count is as high again. `counted`
 * is set if `used` is only a part of what is known to be used: that of a share, or up to the limit.
 * `outage` is the number of the outage of this gateway in which the units were admitted from a share.
 * `isUnknown` is set in a refusal from memory if no answer has told the usage, or only one since
 * which other gateways may have used the window up; `used` is what it told, or 0.
 */
export type WindowUsage = Limit & {
  readonly used: number;
  readonly resetMs: number;
  readonly loweredFrom?: number;
  readonly counted?: number;
  readonly outage?: number;
  readonly isUnknown?: true;
};

/**
 * The answer to a quota request. The first `granted` requests were charged to every window, the
 * others to none. `ban` is set only while one is in force. `newBan` is the ban that this very
 * decision made, in force or observed. `strikes` counts those that still matter. `strikeDueMs` is
 * the earliest instant at which a further refusal of the same cost could be a strike: refusals
 * before it need not be reported. All instants are of the store's clock, whose current time is
 * `nowMs`.
 */
export type QuotaDecision = {
  readonly nowMs: number;
  readonly granted: number;
  readonly windows: readonly WindowUsage[];
  readonly ban: Ban | undefined;
  readonly newBan?: NewBan;
  readonly strikes: number;
  readonly strikeDueMs: number;
  /** A window or a ban from an impossible future was moved to the present: worth a log line. */
  readonly repaired: boolean;
  /** Each of these: the window at that place of `windows`, or the ban, and its start or its end before. */
  readonly moved?: readonly Move[];
};

export type Move = { readonly at: number | "ban"; readonly fromMs: number };

type DecideResult = { readonly account: AccountState; readonly decision: QuotaDecision };

/**
 * The reference rule of bans and quotas (docs/reference/http.md#quotas): the ban first, then every
 * window, charged all or none, with strikes and new bans. Asking for n requests equals asking n
 * times for one request of the same cost at the same instant. The memory store runs this function.
 * Redis runs decide.lua, and a differential test holds the two together.
 */
export function decide(
  account: AccountState,
  quotaRequest: QuotaRequest,
  nowMs: number,
): DecideResult {
  const { limits, bans, requests, strikesOnly = false, cost = 1 } = quotaRequest;
  const past = present(account, quotaRequest, nowMs);
  const { usage, ban } = past;

  const banned = bans !== undefined && banAt(ban, nowMs) !== undefined;
  const room = banned || strikesOnly ? 0 : roomFor(quotaRequest, usage);
  const granted = Math.max(0, Math.min(requests, room));
  charge(usage, limits, granted, cost);

  const refused = requests - granted;
  if (refused > 0 && !banned) noteRefusals(usage, quotaRequest, nowMs);
  const window = refused > 0 && !banned ? lastExhausted(usage, quotaRequest) : undefined;
  const struck: StrikeResult =
    window === undefined ? past : strike(past, quotaRequest, nowMs, refused, window);
  const all: AccountState = { usage, strikesMs: struck.strikesMs, ban: struck.ban };
  const next =
    past.repaired || changes(account, all, quotaRequest) ? dropEndedWindows(all, nowMs) : all;
  const { repaired, moved } = past;
  const verdict = verdictOf(next, quotaRequest, nowMs, granted, repaired);
  const decision = moved.length === 0 ? verdict : { ...verdict, moved };
  return {
    account: granted > 0 ? { ...next, usage: withoutMarks(next.usage, limits) } : next,
    decision: struck.earned === undefined ? decision : { ...decision, newBan: struck.earned },
  };
}

/** The number of requests of that cost that fit into every window, without the reserved units. */
function roomFor(
  { limits, reserved, cost = 1 }: QuotaRequest,
  usage: AccountState["usage"],
): number {
  return Math.min(
    ...limits.map((limit, i) => {
      const units = costIn(limit, cost);
      const left = limit.limit - (reserved?.[i] ?? 0) - held(usage, limit).count;
      if (units > 0) return Math.floor(left / units);
      return limit.hold === undefined || left > 0 ? Number.POSITIVE_INFINITY : 0;
    }),
  );
}

type PresentState = {
  readonly usage: Partial<Record<string, WindowCount>>;
  readonly strikesMs: readonly number[];
  readonly ban: Ban | undefined;
  readonly repaired: boolean;
  readonly moved: readonly Move[];
};

/**
 * Brings an account to the present. A window never goes back when a clock does. One stored more
 * than its own length ahead of now is damage: it is moved to the present and keeps its count
 * (docs/reference/http.md#windows). So are a ban that would begin in the future, and strikes further
 * ahead than they could matter.
 */
function present(
  account: AccountState,
  { limits, bans }: QuotaRequest,
  nowMs: number,
): PresentState {
  const usage: Partial<Record<string, WindowCount>> = { ...account.usage };
  const moved: Move[] = [];
  for (const [at, limit] of limits.entries()) {
    const { window, calendar } = limit;
    const startMs = windowStart(window, nowMs, calendar);
    const stored = held(usage, limit);
    if (stored.startMs < startMs) {
      usage[counterName(limit)] = { startMs, count: 0, refusedMs: 0 };
    } else if (
      stored.startMs - nowMs >
      windowEnd(window, stored.startMs, calendar) - stored.startMs
    ) {
      usage[counterName(limit)] = { startMs, count: stored.count, refusedMs: 0 };
      moved.push({ at, fromMs: stored.startMs });
    }
  }
  let ban = account.ban && presentBan(account.ban, nowMs);
  if (account.ban !== undefined && ban !== account.ban) {
    moved.push({ at: "ban", fromMs: account.ban.untilMs });
  }
  if (ban !== undefined && bans !== undefined && ban.untilMs + bans.forgetAfterMs <= nowMs) {
    ban = undefined;
  }
  const strikesMs = kept(account.strikesMs, nowMs, strikeLifeMs(bans));
  return { usage, strikesMs, ban, repaired: moved.length > 0, moved };
}

/** Whether a quota request changes the account. A peek never counts as a change. */
function changes(
  before: AccountState,
  after: AccountState,
  { limits, requests }: QuotaRequest,
): boolean {
  if (requests === 0) return false;
  if (before.ban !== after.ban || before.strikesMs.length !== after.strikesMs.length) return true;
  if (before.strikesMs.at(-1) !== after.strikesMs.at(-1)) return true;
  return limits.some((limit) => {
    const [was, is] = [held(before.usage, limit), held(after.usage, limit)];
    return was.startMs !== is.startMs || was.count !== is.count || was.refusedMs !== is.refusedMs;
  });
}

/**
 * The account without ended windows. They are removed when there is something to write. A month ends
 * here when the longest one would, because the calendar of the account is not known.
 */
export function dropEndedWindows(account: AccountState, nowMs: number): AccountState {
  const usage: Partial<Record<string, WindowCount>> = {};
  for (const [counter, stored] of Object.entries(account.usage)) {
    if (stored !== undefined && latestEnd(counterWindow(counter), stored.startMs) > nowMs) {
      usage[counter] = stored;
    }
  }
  return { ...account, usage };
}

/** The same list if nothing is dropped: most accounts have no strike, and share one empty list. */
function kept(strikesMs: readonly number[], nowMs: number, keepMs: number): readonly number[] {
  if (strikesMs.every((atMs) => Math.abs(nowMs - atMs) < keepMs)) return strikesMs;
  return strikesMs.filter((atMs) => Math.abs(nowMs - atMs) < keepMs);
}

const NEVER: WindowCount = { startMs: Number.NEGATIVE_INFINITY, count: 0, refusedMs: 0 };

function held(usage: AccountState["usage"], limit: Limit): WindowCount {
  return usage[counterName(limit)] ?? NEVER;
}

function charge(
  usage: Partial<Record<string, WindowCount>>,
  limits: readonly Limit[],
  granted: number,
  cost: number,
): void {
  for (const limit of limits) {
    const stored = held(usage, limit);
    const count = stored.count + granted * costIn(limit, cost);
    usage[counterName(limit)] = { ...stored, count };
  }
}

/**
 * The instant of the first refusal of a window, or 0 if there is none. One in the future is none,
 * because a clock that went back would allow no strike until it is past.
 */
function firstRefusal({ refusedMs }: WindowCount, nowMs: number): number {
  return refusedMs > nowMs ? 0 : refusedMs;
}

type StrikeResult = Pick<AccountState, "strikesMs" | "ban"> & { readonly earned?: NewBan };

/**
 * A refused request is a strike if it comes more than `grace` after the first refusal of its window
 * and at least `grace` after the previous strike. Of several exhausted windows, the one that resets
 * last counts. `strikes` of them within `within` are a ban (docs/reference/http.md#strikes). A ban
 * that is only observed leaves the account as it is, and its next strike is as far away as from any
 * other strike.
 */
function strike(
  past: PresentState,
  { bans }: QuotaRequest,
  nowMs: number,
  refused: number,
  at: Limit,
): StrikeResult {
  const { usage } = past;
  const counter = counterName(at);
  const stored = held(usage, at);
  if (firstRefusal(stored, nowMs) === 0) usage[counter] = { ...stored, refusedMs: nowMs };
  if (bans === undefined) return past;

  let left = refused;
  const strikesMs = [...past.strikesMs];
  const { refusedMs } = held(usage, at);
  while (left > 0 && nowMs >= nextStrikeMs(refusedMs, strikesMs, bans)) {
    strikesMs.push(nowMs);
    left -= 1;
    if (recentStrikes(strikesMs, bans, nowMs) < bans.strikes) continue;
    const ban = earnedBan(past.ban, bans, nowMs, at);
    const within = strikesMs.filter((atMs) => nowMs - atMs < bans.withinMs);
    const earned = { ...ban, strikesMs: within };
    if (!bans.observe) return { strikesMs: [], ban, earned };
    usage[counter] = { ...held(usage, at), refusedMs: nowMs };
    return { strikesMs: [], ban: past.ban, earned };
  }
  return { strikesMs, ban: past.ban };
}

/**
 * The window that resets last among those in which the cost does not fit; on a tie the longer one.
 * Caps of keys and meters are left out, because a refusal by these alone is no strike.
 */
function lastExhausted(
  usage: AccountState["usage"],
  { limits, cost = 1 }: Pick<QuotaRequest, "limits" | "cost">,
): Limit | undefined {
  let last: Limit | undefined;
  let lastMs = 0;
  for (const limit of limits) {
    const stored = held(usage, limit);
    if (!mayStrike(limit) || fitsLimit(limit, stored.count, cost)) continue;
    const endMs = windowEnd(limit.window, stored.startMs, limit.calendar);
    if (endMs >= lastMs) [last, lastMs] = [limit, endMs];
  }
  return last;
}

function verdictOf(
  account: AccountState,
  quotaRequest: QuotaRequest,
  nowMs: number,
  granted: number,
  repaired: boolean,
): QuotaDecision {
  const { limits, bans } = quotaRequest;
  const windows = limits.map((limit) => {
    const { startMs, count, loweredFrom } = held(account.usage, limit);
    const resetMs = windowEnd(limit.window, startMs, limit.calendar);
    const usage = { ...limit, used: count, resetMs };
    return loweredFrom === undefined ? usage : { ...usage, loweredFrom };
  });
  const ban = bans && banAt(account.ban, nowMs);
  const last = lastExhausted(account.usage, quotaRequest);
  const refusedMs = last === undefined ? 0 : firstRefusal(held(account.usage, last), nowMs);
  const strikeDueMs =
    bans === undefined || ban !== undefined || refusedMs === 0
      ? nowMs
      : Math.max(nowMs, nextStrikeMs(refusedMs, account.strikesMs, bans));
  const strikes = bans === undefined ? 0 : recentStrikes(account.strikesMs, bans, nowMs);
  return { nowMs, granted, windows, ban, strikes, strikeDueMs, repaired };
}
