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
 * How far copies of one variant lie apart, as a share of their median: a difference below it says
 * nothing. The largest over all variants that have copies.
 */
export function noiseOf(copies: readonly (readonly number[])[]): number {
  const spreads = copies
    .filter((values) => values.length > 1)
    .map((values) => (Math.max(...values) - Math.min(...values)) / median(values));
  return Math.max(0, ...spreads);
}

/** `value` as a multiple of `reference`; "none" when the difference is below the noise. */
export function ratio(value: number, reference: number, noise: number): number | "none" {
  const found = value / reference;
  return Math.abs(found - 1) <= noise ? "none" : found;
}
