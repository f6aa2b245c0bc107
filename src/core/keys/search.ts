import type { AccountRecord, KeyRecord } from "./records.ts";
import { isSuspended } from "./records.ts";

/** More words than this say nothing more; each has a bit in a number. */
const WORDS_MAX = 16;

/**
 * Looks for accounts by words, in any case: each word is in the id, environment, plan, state or
 * metadata of the account, or in the id or name of one of its keys. First every key is noted, then
 * every account judged, so that callers can do it in pieces.
 */
export class AccountSearch {
  readonly #words: readonly string[];
  /** The words that are in keys of an account, as bits. */
  readonly #inKeys = new Map<string, number>();

  constructor(text: string) {
    this.#words = text.toLowerCase().split(/\s+/).filter(Boolean).slice(0, WORDS_MAX);
  }

  note({ id, name, account }: Pick<KeyRecord, "id" | "name" | "account">): void {
    const found = this.#bitsIn(`${id}\n${name}`);
    if (found !== 0) this.#inKeys.set(account, (this.#inKeys.get(account) ?? 0) | found);
  }

  /** `nowMs` is Unix milliseconds: a suspension may be over. */
  fits(account: AccountRecord, nowMs: number): boolean {
    const { id, environment, plan, meta } = account;
    const state = isSuspended(account, nowMs) ? "suspended" : "active";
    const told = [id, environment, plan, state, ...Object.entries(meta).flat()].join("\n");
    const found = this.#bitsIn(told) | (this.#inKeys.get(id) ?? 0);
    return found === 2 ** this.#words.length - 1;
  }

  #bitsIn(text: string): number {
    const lower = text.toLowerCase();
    return this.#words.reduce((bits, word, i) => bits | (lower.includes(word) ? 1 << i : 0), 0);
  }
}
