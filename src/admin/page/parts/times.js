import { el, fill } from "./elements.js";
import { count, counted } from "./format.js";
import { whenUnselected } from "./selection.js";

const DAY_S = 86_400;
const STEPS = [
  [DAY_S, "d"],
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
  const text = `${count(Math.floor(length / size))} ${unit}`;
  return away > 0 ? `in ${text}` : `${text} ago`;
}

/** "2 days left", rounded up as the API and the command line do, and then "gone 2 d ago". */
function daysLeft(unixSeconds) {
  const left = unixSeconds - now();
  if (left <= 0) return `gone ${relative(unixSeconds)}`;
  return `${counted(Math.ceil(left / DAY_S), "day")} left`;
}

/** An instant with its date and time, "2026-07-15 12:00:00 UTC". */
export function utc(unixSeconds) {
  return `${new Date(unixSeconds * 1_000).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** An instant: relative, and exact on hover and for programs. `keepTimes` keeps it up to date. */
export function time(unixSeconds) {
  const exact = new Date(unixSeconds * 1_000).toISOString();
  const attributes = { datetime: exact, title: utc(unixSeconds), "data-unix": unixSeconds };
  return el("time", attributes, relative(unixSeconds));
}

/** The instant at which something goes away: the days until then. */
export function sunsetTime(unixSeconds) {
  const element = time(unixSeconds);
  element.dataset.sunset = "";
  element.textContent = daysLeft(unixSeconds);
  return element;
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
      const { unix, sunset } = element.dataset;
      const text = (sunset === undefined ? relative : daysLeft)(Number(unix));
      if (element.textContent !== text) whenUnselected(element, () => fill(element, text));
    }
  }, 1_000);
}
