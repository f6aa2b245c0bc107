import {
  checkKeyFormat,
  digestKey,
  type ForeignKeyFormat,
  matchesForeignFormat,
} from "../../core/keys/key.ts";
import { isWorking, type KeyRecord } from "../../core/keys/records.ts";
import { dayOf } from "../../core/quota/days.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";

/** The time for which tokens are collected and then checked together, and the most of them. */
const LOOK_MS = 100;
const WAITING_MAX = 100;
/** The most keys that are reported a day. */
const TOLD_MAX = 10_000;

type KeyUsePlace = {
  readonly name: string;
  readonly keyPrefix: string;
  readonly foreignKeys: readonly ForeignKeyFormat[];
};

type WaitingToken = { readonly token: string; readonly place: KeyUsePlace };

type WrongEnvironmentOptions = {
  readonly keys: Pick<KeyStore, "find">;
  /** Unix milliseconds. */
  readonly now: () => number;
  /** Called once a day for each key. `day` counts from 1970. */
  readonly onFound: (key: KeyRecord, usedIn: string, day: number) => void;
};

/**
 * Finds keys of another environment among the tokens that an environment has refused: a client has
 * mixed them up. Tokens are checked after the response, and only a bounded number of them a second.
 */
export class WrongEnvironmentKeys {
  readonly #options: WrongEnvironmentOptions;
  readonly #told = new Set<string>();
  #day = 0;
  #waiting: WaitingToken[] = [];

  constructor(options: WrongEnvironmentOptions) {
    this.#options = options;
  }

  note(token: string, place: KeyUsePlace): void {
    if (this.#waiting.length >= WAITING_MAX) return;
    this.#waiting.push({ token, place });
    if (this.#waiting.length === 1) setTimeout(() => this.#look(), LOOK_MS).unref();
  }

  #look(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    const nowMs = this.#options.now();
    const day = dayOf(nowMs);
    if (day !== this.#day) this.#told.clear();
    this.#day = day;
    for (const { token, place } of waiting) {
      const key = isKey(token, place) ? this.#options.keys.find(digestKey(token)) : undefined;
      if (key === undefined || key.environment === place.name || !isWorking(key, nowMs)) continue;
      if (this.#told.has(key.id) || this.#told.size >= TOLD_MAX) continue;
      this.#told.add(key.id);
      this.#options.onFound(key, place.name, day);
    }
  }
}

/** Whether the token has the shape of a key of any environment. */
function isKey(token: string, { keyPrefix, foreignKeys }: KeyUsePlace): boolean {
  const tag = token.slice(keyPrefix.length + 1).split("_", 1)[0] ?? "";
  return checkKeyFormat(token, keyPrefix, tag).ok || matchesForeignFormat(token, foreignKeys);
}
