import { note } from "./elements.js";
import { count, splitList } from "./format.js";

/**
 * Parses "minute=500, day=20000" as an object of limits. Throws at a pair whose value is no whole
 * number in plain decimal, such as 20.000 or 2e4, and at a window that is given twice.
 */
export function parseLimits(text) {
  const pairs = splitList(text);
  const limitsOf = new Map(
    pairs.map((pair) => {
      const [, window, limit] = /^([^=]*[^=\s])\s*=\s*(\d+)$/.exec(pair) ?? [];
      if (window !== undefined) return [window, Number(limit)];
      throw new Error(`Cannot use ${pair}: expected a window and a whole number, as in minute=500`);
    }),
  );
  if (limitsOf.size === pairs.length) return Object.fromEntries(limitsOf);
  throw new Error("Cannot use two limits for one window: give each window once");
}

/**
 * The limits that differ from those that were shown, null for one to drop. The others are left out,
 * because somebody else may have changed them since. Throws if there is none.
 */
export function changedLimits(shown, text) {
  const typed = parseLimits(text);
  const dropped = Object.keys(shown).filter((window) => !Object.hasOwn(typed, window));
  const set = Object.entries(typed).filter(([window, limit]) => shown[window] !== limit);
  const changes = [...set, ...dropped.map((window) => [window, null])];
  if (changes.length > 0) return Object.fromEntries(changes);
  throw new Error("Nothing to change: these are the limits as they were shown");
}

/** Announces the limits after a change that are not those of its text, because they were left out of it. */
export function noteOthers(text, now) {
  const typed = parseLimits(text);
  const windows = Object.keys({ ...typed, ...now });
  const others = windows.filter((window) => typed[window] !== now[window]);
  if (others.length === 0) return;
  const held = others.map((window) => {
    return Object.hasOwn(now, window) ? `${window}=${now[window]}` : `no ${window}`;
  });
  note(`What somebody else set since they were shown holds: ${held.join(", ")}`, 30_000);
}

/** The text that `parseLimits` reads. */
export function limitsText(own) {
  const pairs = Object.entries(own).map(([window, limit]) => `${window}=${limit}`);
  return pairs.join(", ");
}

/** "a minute", "an hour"; of a window of a meter, which is `tokens.month`, "tokens a month". */
export function aWindow(name) {
  const [window, part] = name.split(".").reverse();
  const each = `${window === "hour" ? "an" : "a"} ${window}`;
  return part === undefined ? each : `${part} ${each}`;
}

/** Formats limits as "60 a minute, 1,000 a day", with the windows in the order of the response. */
export function limits(plan) {
  if (typeof plan !== "object" || plan === null) return "agreed per account";
  const { custom, concurrent, observe, included, meters = {}, ...windows } = plan;
  const parts = Object.keys(windows).map((name) => `${count(windows[name])} ${aWindow(name)}`);
  for (const [meter, own] of Object.entries(meters)) {
    if (own === "unlimited") parts.push(`${meter} without a limit`);
    else for (const window in own) parts.push(`${count(own[window])} ${meter} ${aWindow(window)}`);
  }
  if (custom) parts.push("agreed per account");
  if (concurrent !== undefined) parts.push(`${count(concurrent)} at once`);
  if (included !== undefined) parts.push(`included: ${limits(included)}`);
  if (observe !== undefined) parts.push(`observed: ${limits(observe)}`);
  return parts.join(", ");
}
