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

/** The parts of a text that are separated by commas, without spaces around them. */
export function splitList(text) {
  return text
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean);
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
