import { errorMessage } from "../../base/messages.ts";
import type { AccountRef } from "./account-ref.ts";
import type { OnMissing, StorePart } from "./quota-store.ts";

/** Asks about many accounts of a store whose parts may be unreachable. */
export class PartsAsked {
  readonly #partOf: (accountRef: AccountRef) => StorePart | undefined;
  readonly #onMissing: OnMissing | undefined;
  /** Nodes that did not answer: each further question would wait as long as the first one did. */
  readonly #missing = new Set<string>();

  constructor(
    partOf: (accountRef: AccountRef) => StorePart | undefined,
    onMissing: OnMissing | undefined,
  ) {
    this.#partOf = partOf;
    this.#onMissing = onMissing;
  }

  /** The answer; undefined if the part that has the account is missing. */
  async ask<T>(accountRef: AccountRef, question: () => Promise<T>): Promise<T | undefined> {
    const part = this.#onMissing === undefined ? undefined : this.#partOf(accountRef);
    if (part !== undefined && this.#missing.has(part.node)) return undefined;
    try {
      return await question();
    } catch (error) {
      if (part === undefined) throw error;
      if (!this.#missing.has(part.node)) {
        this.#missing.add(part.node);
        this.#onMissing?.({ ...part, why: errorMessage(error) });
      }
      return undefined;
    }
  }
}
