import type { Slice } from "./slice.ts";

/** The middle one; of an even number the mean of the two in the middle. NaN of none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const half = sorted.length / 2;
  const [low = Number.NaN, high = Number.NaN] = [
    sorted[Math.ceil(half) - 1],
    sorted[Math.floor(half)],
  ];
  return (low + high) / 2;
}

/** Each figure by itself: the median over the slices. Undefined of none. */
export function medianSlice(slices: readonly Slice[]): Slice | undefined {
  const [first] = slices;
  if (first === undefined) return undefined;
  const figure = (name: keyof Slice) => median(slices.map((slice) => slice[name]));
  const names = Object.keys(first) as (keyof Slice)[];
  return Object.fromEntries(names.map((name) => [name, figure(name)])) as Slice;
}

/**
 * How far a copy of a variant lies from the median of all its copies, as a share of it: a difference
 * below it says nothing. The largest over all variants that have copies.
 */
export function noiseOf(copies: readonly (readonly number[])[]): number {
  const spreads = copies
    .filter((values) => values.length > 1)
    .map((values) => {
      const middle = median(values);
      return Math.max(...values.map((value) => Math.abs(value - middle))) / middle;
    });
  return Math.max(0, ...spreads);
}

/** `value` as a multiple of `reference`; "none" when the difference is below the noise. */
export function ratio(value: number, reference: number, noise: number): number | "none" {
  const found = value / reference;
  return Math.abs(found - 1) <= noise ? "none" : found;
}

const RESAMPLES = 2000;

/**
 * The ratio of the medians of `values` and `by`, and between which bounds 95 % of it lie when copies
 * are drawn anew from those that there are (a bootstrap).
 */
export function ratioInterval(
  values: readonly number[],
  by: readonly number[],
): { ratio: number; low: number; high: number } {
  const drawn = (list: readonly number[]) => {
    return list.map(() => list[Math.floor(Math.random() * list.length)] ?? Number.NaN);
  };
  const ratios = Array.from({ length: RESAMPLES }, () => median(drawn(values)) / median(drawn(by)));
  ratios.sort((a, b) => a - b);
  const at = (share: number) => ratios[Math.floor(share * (RESAMPLES - 1))] ?? Number.NaN;
  return { ratio: median(values) / median(by), low: at(0.025), high: at(0.975) };
}
