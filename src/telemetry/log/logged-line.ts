import { isObject } from "../../base/is-object.ts";
import { cleanText } from "../../base/messages.ts";
import { parseJson } from "../../base/parse-json.ts";
import type { AccessLogEntry } from "./access-log-entry.ts";

/** A request as a log line describes it. `time` is its end, in Unix milliseconds. */
export type LoggedRequest = AccessLogEntry & { readonly time: number };

/**
 * Any other line: an event, or a line about the process. `time` is an instant, if it is present.
 */
export type LoggedEvent = Readonly<Record<string, unknown>> & { readonly msg: string };

/** The name of an event: its kind in the line of an operator's event, else the message. */
export function eventName({ msg, kind }: LoggedEvent): string {
  return msg === "event" ? String(kind) : msg;
}

/** Matches JSON text that may contain characters which cleanText escapes. Few lines do. */
const UNCLEAN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]|\\[bfnrtu]/u;

/**
 * Parses a log line from any source. All members that are read have the types that a gateway
 * writes, and no text moves a cursor. Undefined for a line that no gateway writes.
 */
export function parseLoggedLine(text: string): LoggedRequest | LoggedEvent | undefined {
  const line = parseJson(text);
  if (!isObject(line) || !isText(line.msg)) return undefined;
  const told = UNCLEAN.test(text) ? (cleaned(line) as Members) : line;
  const isSound = told.msg === "request" ? isRequest(told) : isAbsentOr(isInstantMs)(told.time);
  return isSound ? (told as LoggedEvent) : undefined;
}

export function isLoggedRequest(line: LoggedRequest | LoggedEvent): line is LoggedRequest {
  return "msg" in line && line.msg === "request";
}

type Members = Readonly<Record<string, unknown>>;
type Check = (value: unknown) => boolean;

/** The last instant of a calendar, in Unix milliseconds. */
export const LAST_MS = 8.64e15;
const DECISIONS: ReadonlySet<unknown> = new Set(["admitted", "refused", "none"]);

export const isText = (value: unknown): value is string => typeof value === "string";
const isNumber: Check = (value) => Number.isFinite(value);
const isUnits: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isInstantMs: Check = (value) => isNumber(value) && Math.abs(value as number) <= LAST_MS;
const isInstant: Check = (value) => isNumber(value) && Math.abs(value as number) <= LAST_MS / 1_000;
const isAbsentOr = (check: Check): Check => {
  return (value) => value === undefined || check(value);
};
const isListOf = (check: Check): Check => {
  return (value) => Array.isArray(value) && value.every(check);
};
const isWindow: Check = (value) => {
  if (!Array.isArray(value) || value.length !== 4) return false;
  const [name, used, limit, reset] = value as unknown[];
  return isText(name) && isNumber(used) && isNumber(limit) && isInstant(reset);
};
const isMeta: Check = (value) => isObject(value) && Object.values(value).every(isText);

const isMeter: Check = (value) => {
  if (!isObject(value) || !isUnits(value.hold)) return false;
  return isAbsentOr(isUnits)(value.used) && isAbsentOr(isUnits)(value.charged);
};
const isHolds: Check = (value) => isObject(value) && Object.values(value).every(isUnits);
const isMeters: Check = (value) => isObject(value) && Object.values(value).every(isMeter);

/**
 * The type of each member of a request line. Members that are always present are not `isAbsentOr`.
 */
const REQUEST_MEMBERS: Readonly<Record<keyof LoggedRequest, Check>> = {
  time: (value) => Number.isSafeInteger(value) && isInstantMs(value),
  id: isText,
  env: isAbsentOr(isText),
  account: isAbsentOr(isText),
  key: isAbsentOr(isText),
  plan: isAbsentOr(isText),
  meta: isAbsentOr(isMeta),
  method: isText,
  route: isAbsentOr(isText),
  path: isText,
  status: isUnits,
  code: isAbsentOr(isText),
  source: isText,
  decision: (value) => DECISIONS.has(value),
  charged: isUnits,
  forwards: isUnits,
  durationMs: isNumber,
  client: isText,
  upstream: isAbsentOr(isText),
  backend: isAbsentOr(isText),
  traceId: isAbsentOr(isText),
  decidedAt: isAbsentOr(isInstantMs),
  cost: isAbsentOr(isUnits),
  strikes: isAbsentOr(isUnits),
  config: isAbsentOr(isText),
  meters: isAbsentOr(isMeters),
  observed: isAbsentOr(isListOf(isText)),
  over: isAbsentOr(isText),
  windows: isAbsentOr(isListOf(isWindow)),
  holds: isAbsentOr(isHolds),
  monthFrom: isAbsentOr(isInstant),
  by: isAbsentOr(isText),
  ban: isAbsentOr(isInstant),
  until: isAbsentOr(isInstant),
  why: isAbsentOr(isText),
};
const REQUEST_CHECKS = Object.entries(REQUEST_MEMBERS);

function isRequest(line: Members): boolean {
  if (!REQUEST_CHECKS.every(([name, check]) => check(line[name]))) return false;
  return line.decidedAt === undefined || line.cost !== undefined;
}

/** The same value with all of its text cleaned, including names of members. */
function cleaned(value: unknown): unknown {
  if (isText(value)) return cleanText(value);
  if (Array.isArray(value)) return value.map(cleaned);
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, each]) => [cleanText(name), cleaned(each)]),
  );
}
