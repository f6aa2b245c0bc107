import { el } from "./elements.js";

const GROUPED = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const TENTHS = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const HUNDREDTHS = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });

export function count(value) {
  return value === null || value === undefined ? "–" : GROUPED.format(value);
}

/** "1 key", "2,000 keys". */
export function counted(value, thing) {
  return `${count(value)} ${thing}${value === 1 ? "" : "s"}`;
}

/** "1.5K/s", "0.25/s". */
export function perSecond(value) {
  return value === null || value === undefined ? "–" : `${short(value)}/s`;
}

export function perMinute(value) {
  return value === null || value === undefined ? "–" : `${short(value)}/min`;
}

function short(value) {
  if (value < 1) return HUNDREDTHS.format(value);
  return value < 10 ? TENTHS.format(value) : SHORT.format(Math.round(value));
}

export function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  if (value === Number.POSITIVE_INFINITY) return "over 10 s";
  if (value >= 1_000) return `${(value / 1_000).toFixed(value < 10_000 ? 1 : 0)} s`;
  return `${value < 10 ? TENTHS.format(value) : GROUPED.format(value)} ms`;
}

const STEPS = [
  [86_400, "d"],
  [3_600, "h"],
  [60, "min"],
  [1, "s"],
];

/** How far the clock of the gateway's store is ahead of this computer's; undefined until it is known. */
let aheadMs;

/**
 * Sets the clock by which the gateway judges its records, that of its store. Instants are shown by
 * that clock, even if this computer's is wrong.
 */
export function setClock(gatewayMs) {
  aheadMs = gatewayMs - Date.now();
}

/**
 * Takes the gateway's own clock from the Date of a response, exact to a second, until the live
 * figures tell that of its store.
 */
export function guessClock(date) {
  const gatewayMs = Date.parse(date);
  if (!Number.isNaN(gatewayMs)) aheadMs ??= gatewayMs - Date.now();
}

/** Now, by the same clock, in Unix seconds. */
export function now() {
  return (Date.now() + (aheadMs ?? 0)) / 1_000;
}

/** "in 3 min", "2 d ago", "now". */
export function relative(unixSeconds) {
  const away = Math.round(unixSeconds - now());
  const length = Math.abs(away);
  const [size, unit] = STEPS.find(([step]) => length >= step) ?? [1, "s"];
  if (length < 1) return "now";
  const text = `${GROUPED.format(Math.floor(length / size))} ${unit}`;
  return away > 0 ? `in ${text}` : `${text} ago`;
}

/** An instant: relative, and exact on hover and for programs. `keepTimes` keeps it up to date. */
export function time(unixSeconds) {
  const exact = new Date(unixSeconds * 1_000).toISOString();
  const title = `${exact.slice(0, 19).replace("T", " ")} UTC`;
  const attributes = { datetime: exact, title, "data-unix": unixSeconds };
  return el("time", attributes, relative(unixSeconds));
}

/** An instant at which what is shown with it ends. `hasEnded` finds those that have come. */
export function endTime(unixSeconds) {
  const element = time(unixSeconds);
  element.dataset.ends = unixSeconds;
  return element;
}

/** Whether an end shown in the element has come since it was drawn. */
export function hasEnded(element) {
  return [...element.querySelectorAll("[data-ends]")].some(({ dataset }) => dataset.ends <= now());
}

/**
 * An instant with its date and time in words, where people match it with a log or pass it on: a title
 * is shown to a mouse alone.
 */
export function exactly(instant) {
  return el("span", {}, instant, `, ${instant.title}`);
}

/** Updates every instant on the page once a second; unchanged texts are not touched. */
export function keepTimes() {
  setInterval(() => {
    for (const element of document.querySelectorAll("time[data-unix]")) {
      const text = relative(Number(element.dataset.unix));
      if (element.textContent !== text) element.textContent = text;
    }
  }, 1_000);
}

/** The parts of a text that are separated by commas, without spaces around them. */
export function splitList(text) {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
}

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

/** Parses the day of a month. Throws at anything but a whole number in plain decimal. */
export function parseDay(text) {
  if (/^\d{1,9}$/.test(text)) return Number(text);
  throw new Error(`Cannot use ${text}: expected a day of the month, as in 15`);
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
