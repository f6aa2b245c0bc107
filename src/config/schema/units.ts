/** `500ms 10s 5m 24h 30d`: one whole number and one unit. */
export const DURATION = /^\d{1,15}(?:ms|s|m|h|d)$/;

/** `512B 16KiB 1MiB 2GiB`: one whole number and one unit, in powers of 1024. */
export const SIZE = /^\d{1,15}(?:B|KiB|MiB|GiB)$/;

const MILLISECONDS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
const BYTES = { B: 1, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3 } as const;

/** A duration as messages ask for one; the value that was found follows. */
export const DURATION_WORDS = "a duration such as 10s, 5m, 24h or 90d";

/** A duration in milliseconds, or undefined if the text is not a duration. */
export function parseDuration(text: string): number | undefined {
  return DURATION.test(text) ? amount(text, MILLISECONDS) : undefined;
}

/** "400d", "1500ms": the duration in the largest unit that it is a whole number of. */
export function formatDuration(durationMs: number): string {
  if (durationMs === 0) return "0s";
  const units = Object.entries(MILLISECONDS).toReversed();
  const [unit, size] = units.find(([, each]) => durationMs % each === 0) ?? ["ms", 1];
  return `${durationMs / size}${unit}`;
}

/** A size in bytes, or undefined if the text is not a size. */
export function parseSize(text: string): number | undefined {
  return SIZE.test(text) ? amount(text, BYTES) : undefined;
}

function amount(text: string, units: Readonly<Record<string, number>>): number {
  const digits = Number.parseInt(text, 10);
  const unit = text.replace(/^\d+/, "");
  return digits * (units[unit] ?? Number.NaN);
}
