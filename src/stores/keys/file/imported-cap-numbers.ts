import { freeNumbers } from "../../../core/keys/caps.ts";

/**
 * The numbers that the caps of imported keys have here: if two keys of an account had the same
 * number, their counts would be joined. Keys that share a number in the lines share one here.
 */
export class ImportedCapNumbers {
  /** By account and number in the lines: the number here. */
  readonly #here = new Map<string, number>();
  /** By account: the numbers that its keys have here. */
  readonly #taken = new Map<string, Set<number>>();

  /** A key of the account has this number here. */
  take(account: string, number: number): void {
    this.#takenOf(account).add(number);
  }

  /** A number of the lines is this one here. */
  isHere(account: string, inLines: number, here: number): void {
    this.#here.set(`${account} ${inLines}`, here);
  }

  /** The number here for one of the lines: the same one if it is free. "none" if none is free. */
  numberOf(account: string, inLines: number): number | "none" {
    const taken = this.#takenOf(account);
    const own = taken.has(inLines) ? undefined : inLines;
    const number = this.#here.get(`${account} ${inLines}`) ?? own ?? freeNumbers(taken, 1)?.[0];
    if (number === undefined) return "none";
    this.isHere(account, inLines, number);
    taken.add(number);
    return number;
  }

  #takenOf(account: string): Set<number> {
    const known = this.#taken.get(account) ?? new Set();
    this.#taken.set(account, known);
    return known;
  }
}
