/** Repeatable dice: mulberry32. A case is the same for the same seed and number, whatever ran before. */
export type Dice = {
  /** A whole number from 0 to below `max`. */
  below(max: number): number;
  one<T>(of: readonly T[]): T;
  /** True once in so many times. */
  chance(oneIn: number): boolean;
};

export function diceOf(seed: number, number: number): Dice {
  let state = (Math.imul(seed, 0x9e3779b1) ^ Math.imul(number + 1, 0x85ebca6b)) >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (max: number) => Math.floor(next() * max);
  return {
    below,
    one: (of) => of[below(of.length)] as (typeof of)[number],
    chance: (oneIn) => below(oneIn) === 0,
  };
}
