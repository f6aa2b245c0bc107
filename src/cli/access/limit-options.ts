import { quoteValue } from "../../base/messages.ts";
import { isLimited, LIMITED_WORDS } from "../../core/keys/edit-rules.ts";
import type { AccountLimit, Cap } from "../../core/keys/records.ts";
import { ANCHOR_DAY_MAX } from "../../core/quota/calendar.ts";
import { WINDOW_NAMES } from "../../core/quota/windows.ts";
import type { Invocation } from "../framework/verb.ts";

/** The values of --limit, or the mistake in one. */
export function parseLimitOptions(invocation: Invocation): readonly AccountLimit[] | string {
  const limits = invocation.texts("limit").map(readLimit);
  const wrong = limits.find((limit) => typeof limit === "string");
  return wrong ?? limits.filter((limit) => typeof limit !== "string");
}

/** The values of --cap, or the mistake in one. */
export function parseCapOptions(invocation: Invocation): readonly Cap[] | string {
  const caps: Cap[] = [];
  for (const text of invocation.texts("cap")) {
    const [, name, digits] = /^([a-z]+)=(\d{1,15})$/.exec(text) ?? [];
    const window = WINDOW_NAMES.find((known) => known === name);
    if (window === undefined || digits === undefined) {
      return `Cannot read --cap as WINDOW=NUMBER with a window of ${WINDOW_NAMES.join(", ")}: the value is ${quoteValue(text)}`;
    }
    caps.push({ window, limit: Number(digits) });
  }
  return caps;
}

/** The value of --anchor, or the mistake in it; undefined if it is not given. */
export function parseAnchorOption(invocation: Invocation): number | string | undefined {
  const text = invocation.text("anchor");
  if (text === undefined || /^\d{1,9}$/.test(text)) return text && Number(text);
  return `Cannot read --anchor as a day of the month from 1 to ${ANCHOR_DAY_MAX}: the value is ${quoteValue(text)}`;
}

function readLimit(text: string): AccountLimit | string {
  const [, window = "", digits] = /^([a-z0-9.-]+)=(\d{1,15})$/.exec(text) ?? [];
  if (!isLimited(window)) {
    return `Cannot read --limit as WINDOW=NUMBER with a window of ${LIMITED_WORDS}: the value is ${quoteValue(text)}`;
  }
  return { window, limit: Number(digits) };
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
