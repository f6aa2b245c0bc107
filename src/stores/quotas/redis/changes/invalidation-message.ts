import type { Ban } from "../../../../core/quota/bans.ts";
import type { WindowTotal } from "../../count-corrections.ts";
import { parseBan } from "../stored-bans.ts";
import { formatWindowField } from "../window-fields.ts";

/** The ban of an account since `atMs` of the store's clock; undefined if it was lifted then. */
export type ToldBan = {
  readonly id: string;
  readonly atMs: number;
  readonly ban: Ban | undefined;
};

/** The windows of meters of an account that were set to 0 at `atMs`, by their counters. */
export type ToldReset = {
  readonly id: string;
  readonly atMs: number;
  readonly counters: readonly string[];
};

/**
 * A ban that was earned or imposed, or that was lifted: neither changes a count of the account. If it
 * was kept, its counts have changed and the ban has not.
 */
export type BanChange = "banned" | "lifted" | "kept";
const BAN_CHANGES: readonly BanChange[] = ["banned", "lifted", "kept"];

export function banChangeOf({ ban }: ToldBan): BanChange {
  return ban === undefined ? "lifted" : "banned";
}

/** The marker of a message that tells what became of the bans of its accounts. */
export function markerOf(banChange: BanChange): string {
  return `!${banChange}`;
}

/**
 * The marker of a message of a change that waits in the store for one gateway to report. No account
 * has such a name. An earlier version takes a marker that it does not know for an account that nobody
 * has.
 */
export const PENDING = "!resets";

/** The accounts that a message names, and what it tells of them. */
type AccountNews = {
  /** Accounts of which anything but counts may have changed. */
  readonly changed: readonly string[];
  /** Undefined if both their bans and their counts may have changed, as in an earlier version. */
  readonly banChange: BanChange | undefined;
  readonly toldBans: readonly ToldBan[];
  readonly toldResets: readonly ToldReset[];
  readonly counts: readonly ToldCounts[];
};

/**
 * Reads the words of a message that stand for accounts. An account with counts is named twice, because an
 * older gateway knows only its id.
 */
export function parseNews(words: readonly string[]): AccountNews {
  const counts = words.flatMap((text) => parseCounts(text) ?? []);
  const counted = new Set(counts.map(({ id }) => id));
  return {
    changed: words.filter((id) => !id.includes("=") && !id.startsWith("!") && !counted.has(id)),
    banChange: BAN_CHANGES.find((one) => words.includes(markerOf(one))),
    toldBans: parseToldBans(words),
    toldResets: parseToldResets(words),
    counts,
  };
}

const BAN_MARKER = "!ban";

/**
 * The account in a message and its ban, "id !ban,instant,end,length,field,offences", or
 * "id !ban,instant" of a lift. Earlier versions read the id and ignore the marker.
 */
export function formatToldBan({ id, atMs, ban }: ToldBan): string {
  if (ban === undefined) return `${id} ${BAN_MARKER},${atMs}`;
  const { untilMs, lengthMs, window, operation, offences } = ban;
  const field = formatWindowField({ window, operation });
  return `${id} ${[BAN_MARKER, atMs, untilMs, lengthMs, field, offences].join()}`;
}

const RESET_MARKER = "!reset";

/** The account in a message and its reset, "id !reset,instant,counter,...". See `formatToldBan`. */
export function formatToldReset({ id, atMs, counters }: ToldReset): string {
  return `${id} ${[RESET_MARKER, atMs, ...counters].join()}`;
}

function isToldBan(text: string): boolean {
  return text.startsWith(`${BAN_MARKER},`);
}

function isToldReset(text: string): boolean {
  return text.startsWith(`${RESET_MARKER},`);
}

/** Whether a word of a message tells more of the account before it. */
export function isDetail(text: string): boolean {
  return isToldBan(text) || isToldReset(text);
}

/** The resets in a message as `formatToldReset` writes them, without those that cannot be read. */
function parseToldResets(words: readonly string[]): readonly ToldReset[] {
  return words.flatMap((text, i) => {
    const id = words[i - 1];
    if (id === undefined || !isToldReset(text)) return [];
    const [, at, ...counters] = text.split(",");
    const atMs = Number(at);
    return Number.isSafeInteger(atMs) ? [{ id, atMs, counters }] : [];
  });
}

/** The bans in a message as `formatToldBan` writes them, without those that cannot be read. */
function parseToldBans(words: readonly string[]): readonly ToldBan[] {
  return words.flatMap((text, i) => {
    const id = words[i - 1];
    if (id === undefined || !isToldBan(text)) return [];
    const [, at, ...parts] = text.split(",");
    const atMs = Number(at);
    const ban = parseBan(parts.join(" "));
    const isWhole = Number.isSafeInteger(atMs) && (ban !== undefined || parts.length === 0);
    return isWhole ? [{ id, atMs, ban }] : [];
  });
}

/** Counts of an account at an instant of the store's clock. */
type ToldCounts = {
  readonly id: string;
  readonly totals: readonly WindowTotal[];
  readonly nowMs: number;
};

/**
 * The counts of an account in a message, "id=now,counter,start,count,...", with "start-end" for a
 * month of an account with a calendar.
 */
export function formatCounts(id: string, totals: readonly WindowTotal[], nowMs: number): string {
  const parts = totals.flatMap(({ counter, startMs, endMs, used }) => {
    return [counter, endMs === undefined ? startMs : `${startMs}-${endMs}`, used];
  });
  return `${id}=${[nowMs, ...parts].join()}`;
}

/** The counts of an account as `formatCounts` writes them; undefined if the text has none. */
function parseCounts(text: string): ToldCounts | undefined {
  const [id = "", list] = text.split("=");
  if (list === undefined) return undefined;
  const [now, ...parts] = list.split(",");
  const totals: WindowTotal[] = [];
  for (let i = 0; i + 2 < parts.length; i += 3) {
    const [start = "", end] = (parts[i + 1] as string).split("-");
    const endMs = end === undefined ? undefined : Number(end);
    const [startMs, used] = [Number(start), Number(parts[i + 2])];
    totals.push({ counter: parts[i] as string, startMs, endMs, used });
  }
  const isWhole = totals.every(({ startMs, endMs = 0, used }) => {
    return startMs >= 0 && endMs >= 0 && used >= 0;
  });
  return isWhole ? { id, totals, nowMs: Number(now) } : undefined;
}
