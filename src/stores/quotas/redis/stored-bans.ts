import type { Ban } from "../../../core/quota/bans.ts";
import type { BanCause } from "../admin-changes.ts";
import { parseWindowField } from "./window-fields.ts";

/** The ban in field `b` of an account's hash; undefined if it is damaged. */
export function parseBan(text: string): Ban | undefined {
  const found = /^(\d+) (\d+) (\w+) (\d+)$/.exec(text);
  if (found === null) return undefined;
  return banOf(found[3] as string, Number(found[1]), Number(found[2]), Number(found[4]));
}

/** Undefined if the field is not a window's. */
export function banOf(
  field: string,
  untilMs: number,
  lengthMs: number,
  offences: number,
): Ban | undefined {
  const parts = parseWindowField(field);
  if (parts === undefined) return undefined;
  const ban = { untilMs, lengthMs, window: parts.window, offences };
  return parts.operation === undefined ? ban : { ...ban, operation: parts.operation };
}

const CAUSE = /^(\d{1,16}) (\d{1,16}) (?:h (.*)|k (\d[\d ]*))$/su;

/** How the ban in field `c` of lua/ban-cause.lua came about; undefined if it is damaged. */
export function parseBanCause(text: string): BanCause | undefined {
  const [, until, at, reason, strikes] = CAUSE.exec(text) ?? [];
  if (until === undefined) return undefined;
  const times = { untilMs: Number(until), atMs: Number(at) };
  if (reason !== undefined) return { ...times, imposed: true, reason, strikesMs: [] };
  const strikesMs = String(strikes).split(" ").map(Number);
  return { ...times, imposed: false, reason: "", strikesMs };
}
