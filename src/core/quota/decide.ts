import { type Limit, type WindowName, windowEnd, windowStart } from "./windows.ts";

/**
 * The rules of a ban (docs/reference/http.md#bans). Times are in milliseconds; `factor` is a number
 * of at least 1.
 */
export type BanPolicy = {
  readonly strikes: number;
  readonly withinMs: number;
  readonly graceMs: number;
  readonly durationMs: number;
  readonly factor: number;
  readonly maxMs: number;
  readonly forgetAfterMs: number;
  /** An earned ban is told and counted, clears the strikes, and is not kept. */
  readonly observe?: true;
};

/**
 * One window of an account. `refusedMs` is the instant of its first refusal, or 0 before there is
 * one.
 */
export type Usage = {
  readonly startMs: number;
  readonly count: number;
  readonly refusedMs: number;
};

/** `window` is the one whose refusals made the strikes. `offences` counts this ban too. */
export type Ban = {
  readonly untilMs: number;
  readonly lengthMs: number;
  readonly window: WindowName;
  readonly offences: number;
};

/** All that is remembered of an account. A ban is kept after its end, until it is forgotten. */
export type Account = {
  readonly usage: Readonly<Partial<Record<WindowName, Usage>>>;
  readonly strikesMs: readonly number[];
  readonly ban: Ban | undefined;
};

export const NEW_ACCOUNT: Account = { usage: {}, strikesMs: [], ban: undefined };

/** `units` requests at once; 0 looks and changes nothing that is not damaged. */
export type Ask = {
  readonly limits: readonly Limit[];
  readonly bans: BanPolicy | undefined;
  readonly units: number;
};

/** The state of one window after the decision. `resetMs` is its end. */
export type WindowStanding = {
  readonly window: WindowName;
  readonly limit: number;
  readonly used: number;
  readonly resetMs: number;
};

/**
 * The answer to an ask: the first `granted` of its units were charged to every window, the others
 * to none. `ban` is set only while one is in force. `strikes` counts those that still matter.
 * `strikeDueMs` is the earliest instant at which a further refusal could be a strike: refusals
 * before it need not be reported. All instants are of the store's clock, whose now is `nowMs`.
 */
export type Verdict = {
  readonly nowMs: number;
  readonly granted: number;
  readonly windows: readonly WindowStanding[];
  readonly ban: Ban | undefined;
  readonly strikes: number;
  readonly strikeDueMs: number;
  /** A window or a ban from an impossible future was moved to the present: worth a log line. */
  readonly repaired: boolean;
};

export type Decision = { readonly account: Account; readonly verdict: Verdict };

/**
 * The truth about bans and quotas (docs/reference/http.md#quotas): ban first, then every window,
 * charged all or none, with strikes and bans inside. Asking for n units equals asking n times for
 * one at the same instant. The memory store runs this; decide.lua says the same to Redis, and a
 * differential test holds the two together.
 */
export function decide(account: Account, ask: Ask, nowMs: number): Decision {
  const { limits, bans, units } = ask;
  const past = present(account, ask, nowMs);
  const { usage, ban } = past;

  const banned = ban !== undefined && bans !== undefined && ban.untilMs > nowMs;
  const room = Math.min(...limits.map(({ window, limit }) => limit - held(usage, window).count));
  const granted = banned ? 0 : Math.max(0, Math.min(units, room));
  charge(usage, limits, granted);

  const refused = units - granted;
  const window = refused > 0 && !banned ? lastExhausted(usage, limits) : undefined;
  const struck = window === undefined ? past : strike(past, ask, nowMs, refused, window);
  const next: Account = { usage, strikesMs: struck.strikesMs, ban: struck.ban };
  return { account: next, verdict: verdictOf(next, ask, nowMs, granted, past.repaired) };
}

type Present = {
  readonly usage: Partial<Record<WindowName, Usage>>;
  readonly strikesMs: readonly number[];
  readonly ban: Ban | undefined;
  readonly repaired: boolean;
};

/**
 * Brings an account to now. A window never goes back when a clock does; one stored more than its
 * own length ahead of now is damage, moved to the present with its count kept
 * (docs/reference/http.md#windows). A ban that would begin in the future, and strikes further ahead
 * than they could matter, are damage too.
 */
function present(account: Account, { limits, bans }: Ask, nowMs: number): Present {
  const usage: Partial<Record<WindowName, Usage>> = { ...account.usage };
  let repaired = false;
  for (const { window } of limits) {
    const startMs = windowStart(window, nowMs);
    const stored = held(usage, window);
    if (stored.startMs < startMs) {
      usage[window] = { startMs, count: 0, refusedMs: 0 };
    } else if (stored.startMs - nowMs > windowEnd(window, stored.startMs) - stored.startMs) {
      usage[window] = { startMs, count: stored.count, refusedMs: 0 };
      repaired = true;
    }
  }
  let { ban } = account;
  if (ban !== undefined && ban.untilMs - nowMs > 2 * ban.lengthMs) {
    ban = { ...ban, untilMs: nowMs + ban.lengthMs };
    repaired = true;
  }
  if (ban !== undefined && bans !== undefined && ban.untilMs + bans.forgetAfterMs <= nowMs) {
    ban = undefined;
  }
  const keepMs = bans === undefined ? 0 : Math.max(bans.withinMs, bans.graceMs);
  const strikesMs = kept(account.strikesMs, nowMs, keepMs);
  return { usage, strikesMs, ban, repaired };
}

/** The same list while nothing leaves it: most accounts have no strike, and share one empty list. */
function kept(strikesMs: readonly number[], nowMs: number, keepMs: number): readonly number[] {
  if (strikesMs.every((atMs) => Math.abs(nowMs - atMs) < keepMs)) return strikesMs;
  return strikesMs.filter((atMs) => Math.abs(nowMs - atMs) < keepMs);
}

const NEVER: Usage = { startMs: Number.NEGATIVE_INFINITY, count: 0, refusedMs: 0 };

function held(usage: Account["usage"], window: WindowName): Usage {
  return usage[window] ?? NEVER;
}

function charge(
  usage: Partial<Record<WindowName, Usage>>,
  limits: readonly Limit[],
  units: number,
): void {
  for (const { window } of limits) {
    const stored = held(usage, window);
    usage[window] = { ...stored, count: stored.count + units };
  }
}

/**
 * A refused request is a strike when it comes more than `grace` after the first refusal of its
 * window (of several exhausted ones, that which resets last) and at least `grace` after the
 * previous strike; `strikes` of them within `within` are a ban (docs/reference/http.md#strikes).
 */
function strike(
  past: Present,
  { bans }: Ask,
  nowMs: number,
  refused: number,
  window: WindowName,
): Pick<Account, "strikesMs" | "ban"> {
  const { usage } = past;
  const stored = held(usage, window);
  if (stored.refusedMs === 0) usage[window] = { ...stored, refusedMs: nowMs };
  if (bans === undefined) return past;

  let left = refused;
  let { ban } = past;
  let strikesMs = [...past.strikesMs];
  const { refusedMs } = held(usage, window);
  while (left > 0 && nowMs >= dueMs(refusedMs, strikesMs, bans)) {
    strikesMs.push(nowMs);
    left -= 1;
    if (recent(strikesMs, bans, nowMs) >= bans.strikes) {
      const offences = (ban?.offences ?? 0) + 1;
      const lengthMs = banLength(bans, offences - 1);
      ban = { untilMs: nowMs + lengthMs, lengthMs, window, offences };
      strikesMs = [];
      break;
    }
  }
  return { strikesMs, ban };
}

/** The earliest instant of the next strike: strictly after the grace of the window, and spaced. */
function dueMs(refusedMs: number, strikesMs: readonly number[], bans: BanPolicy): number {
  const lastMs = strikesMs.at(-1);
  const afterRefusalMs = refusedMs + bans.graceMs + 1;
  return lastMs === undefined ? afterRefusalMs : Math.max(afterRefusalMs, lastMs + bans.graceMs);
}

function recent(strikesMs: readonly number[], bans: BanPolicy, nowMs: number): number {
  return strikesMs.filter((atMs) => nowMs - atMs < bans.withinMs).length;
}

/** `duration × factor^offences`, up to `max`; whole milliseconds. */
export function banLength({ durationMs, factor, maxMs }: BanPolicy, offences: number): number {
  return Math.min(maxMs, Math.floor(durationMs * factor ** Math.min(offences, 1024)));
}

/** The exhausted window that resets last; the longer one on a tie. */
function lastExhausted(usage: Account["usage"], limits: readonly Limit[]): WindowName | undefined {
  let last: WindowName | undefined;
  let lastMs = 0;
  for (const { window, limit } of limits) {
    const stored = held(usage, window);
    if (stored.count < limit) continue;
    const endMs = windowEnd(window, stored.startMs);
    if (endMs >= lastMs) [last, lastMs] = [window, endMs];
  }
  return last;
}

function verdictOf(
  account: Account,
  { limits, bans }: Ask,
  nowMs: number,
  granted: number,
  repaired: boolean,
): Verdict {
  const windows = limits.map(({ window, limit }) => {
    const { startMs, count } = held(account.usage, window);
    return { window, limit, used: count, resetMs: windowEnd(window, startMs) };
  });
  const inForce = bans !== undefined && account.ban !== undefined && account.ban.untilMs > nowMs;
  const window = lastExhausted(account.usage, limits);
  const refusedMs = window === undefined ? 0 : held(account.usage, window).refusedMs;
  const strikeDueMs =
    bans === undefined || inForce || refusedMs === 0
      ? nowMs
      : Math.max(nowMs, dueMs(refusedMs, account.strikesMs, bans));
  const ban = inForce ? account.ban : undefined;
  const strikes = bans === undefined ? 0 : recent(account.strikesMs, bans, nowMs);
  return { nowMs, granted, windows, ban, strikes, strikeDueMs, repaired };
}
