import { quoteValue } from "../../base/messages.ts";
import { isLimited, LIMITED_WORDS } from "../../core/keys/edit-rules.ts";
import type { AccountLimit, Cap } from "../../core/keys/records.ts";
import { ANCHOR_DAY_MAX } from "../../core/quota/calendar.ts";
import { WINDOW_NAMES, type WindowName } from "../../core/quota/windows.ts";
import type { Invocation } from "../framework/verb.ts";

/** The values of --limit, or the mistake in one. */
export function parseLimitOptions(invocation: Invocation): readonly AccountLimit[] | string {
  return parseLimits("limit", invocation, isLimited, LIMITED_WORDS);
}

/** The values of --cap, or the mistake in one. */
export function parseCapOptions(invocation: Invocation): readonly Cap[] | string {
  return parseLimits("cap", invocation, isWindowName, WINDOW_NAMES.join(", "));
}

function isWindowName(name: string): name is WindowName {
  return WINDOW_NAMES.some((known) => known === name);
}

/** The values of an option with windows that `isKnown` accepts; `known` names them. */
function parseLimits<Name extends string>(
  option: string,
  invocation: Invocation,
  isKnown: (name: string) => name is Name,
  known: string,
): { readonly window: Name; readonly limit: number }[] | string {
  const limits: { window: Name; limit: number }[] = [];
  for (const text of invocation.texts(option)) {
    const [, window = "", digits] = /^([a-z0-9.-]+)=(\d{1,15})$/.exec(text) ?? [];
    if (!isKnown(window)) {
      return `Cannot read --${option} as WINDOW=NUMBER with a window of ${known}, and a whole number from 1 to 10^12: the value is ${quoteValue(text)}`;
    }
    limits.push({ window, limit: Number(digits) });
  }
  return limits;
}

/** The value of --anchor, or the mistake in it; undefined if it is not given. */
export function parseAnchorOption(invocation: Invocation): number | string | undefined {
  const text = invocation.text("anchor");
  if (text === undefined || /^\d{1,9}$/.test(text)) return text && Number(text);
  return `Cannot read --anchor as a day of the month from 1 to ${ANCHOR_DAY_MAX}: the value is ${quoteValue(text)}`;
}

/** The values of --meta, or the mistake in one. A value may contain "=". */
export function parseMetaOptions(
  invocation: Invocation,
): Readonly<Record<string, string>> | string {
  const pairs: [string, string][] = [];
  for (const text of invocation.texts("meta")) {
    const at = text.indexOf("=");
    if (at < 1) {
      return `Cannot read --meta as NAME=VALUE: the value is ${quoteValue(text)}`;
    }
    pairs.push([text.slice(0, at), text.slice(at + 1)]);
  }
  if (new Set(pairs.map(([name]) => name)).size < pairs.length) {
    return "Cannot use one name of --meta twice: give each name once";
  }
  return Object.fromEntries(pairs);
}
