import type { Limit, WindowName } from "./windows.ts";

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
  /** An earned ban is announced and counted and clears the strikes, but is not kept. */
  readonly observe?: boolean;
};

/**
 * `window` is the one whose refusals made the strikes. If it belongs to an operation, `operation`
 * is that operation's number. `offences` counts this ban too.
 */
export type Ban = {
  readonly untilMs: number;
  readonly lengthMs: number;
  readonly window: WindowName;
  readonly operation?: string;
  readonly offences: number;
};

/** A ban that was just earned, and the instants of the strikes that made it, including the last. */
export type NewBan = Ban & { readonly strikesMs: readonly number[] };

/** The ban that the last of the strikes earns; `last` is the one before, if it is remembered. */
export function earnedBan(last: Ban | undefined, bans: BanPolicy, nowMs: number, at: Limit): Ban {
  const { window, part } = at;
  const offences = (last?.offences ?? 0) + 1;
  const lengthMs = banLength(bans, offences - 1);
  const ban = { untilMs: nowMs + lengthMs, lengthMs, window, offences };
  return part === undefined ? ban : { ...ban, operation: part.id };
}

/**
 * The ban as it holds at `nowMs`. One that would begin in the future is damage, or the clock went
 * back: it begins now.
 */
export function presentBan(ban: Ban, nowMs: number): Ban {
  const { untilMs, lengthMs } = ban;
  return untilMs - nowMs > 2 * lengthMs ? { ...ban, untilMs: nowMs + lengthMs } : ban;
}

/** The ban if it has not ended at `nowMs`. */
export function banAt(ban: Ban | undefined, nowMs: number): Ban | undefined {
  return ban !== undefined && ban.untilMs > nowMs ? ban : undefined;
}

/** The earliest instant of the next strike: strictly after the grace of the window, and spaced. */
export function nextStrikeMs(
  refusedMs: number,
  strikesMs: readonly number[],
  bans: BanPolicy,
): number {
  const lastMs = strikesMs.at(-1);
  const afterRefusalMs = refusedMs + bans.graceMs + 1;
  return lastMs === undefined ? afterRefusalMs : Math.max(afterRefusalMs, lastMs + bans.graceMs);
}

/** How long a strike matters: it counts towards a ban, and it spaces the next one. */
export function strikeLifeMs(bans: BanPolicy | undefined): number {
  return bans === undefined ? 0 : Math.max(bans.withinMs, bans.graceMs);
}

/** The number of strikes that still count towards a ban. */
export function recentStrikes(
  strikesMs: readonly number[],
  bans: BanPolicy,
  nowMs: number,
): number {
  return strikesMs.filter((atMs) => nowMs - atMs < bans.withinMs).length;
}

/** `duration × factor^offences`, up to `max`; whole milliseconds. */
export function banLength({ durationMs, factor, maxMs }: BanPolicy, offences: number): number {
  return Math.min(maxMs, Math.floor(durationMs * factor ** Math.min(offences, 1024)));
}
