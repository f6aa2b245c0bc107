import type { Link } from "../../redis/link.ts";
import { replyList, toStoreFailure, withTimeout } from "../../redis/store-failure.ts";

const LATE_MS = 2_000;
/** The whole set may be tens of megabytes. */
export const ALL_LATE_MS = 10_000;
/** The most times the pieces are read again because the records changed during the read. */
const TRIES_MAX = 3;

/** No id looks like these: ID_PATTERN has no colon and no @. */
export const VERSION_FIELD = ":version";
export const CHANGES_FIELD = ":changes";
export const ACCOUNT_START = "@";

/** Enough to see a change: a record that is deleted by hand does not change the version. */
export type HashMark = { readonly version: string; readonly fields: number };

/** The texts of all fields, including the version and the changes. */
export type HashFields = ReadonlyMap<string, string>;

/**
 * The number of fields that Redis looks at for one piece. A small piece holds up neither Redis nor
 * a serving gateway for more than a few milliseconds. Large pieces take fewer round trips, which
 * matters if round trips are long.
 */
const PIECES = { small: 1_000, large: 10_000 } as const;
export type ReadPace = keyof typeof PIECES;

/** Reads the hash that has the records. All methods reject with StoreFailure. */
export class RecordHash {
  readonly key: string;
  readonly #link: Link;

  constructor(link: Link, key: string) {
    this.#link = link;
    this.key = key;
  }

  async version(): Promise<string> {
    return String((await this.#ask("hget", [VERSION_FIELD])) ?? "");
  }

  async mark(): Promise<HashMark> {
    for (let tried = 1; ; tried++) {
      const length = () => this.#ask("hlen", []);
      const asked = Promise.all([this.version(), length(), this.version()]);
      const [version, fields, after] = await asked;
      // A change between the two would look like a record that was deleted by hand.
      if (version === after || tried === TRIES_MAX) return { version, fields: Number(fields) };
    }
  }

  async some(names: readonly string[]): Promise<readonly (string | null)[]> {
    return replyList(await this.#ask("hmget", names)) as (string | null)[];
  }

  async all(pace: ReadPace): Promise<HashFields> {
    try {
      const found = await this.#unchanged(PIECES[pace]);
      if (found !== undefined) return found;
    } catch (error) {
      // Users of Redis that were set up for an older version have no right to HSCAN.
      if (toStoreFailure(error).code !== "NOPERM") throw error;
    }
    // The client library turns the list that Redis sends into an object.
    const reply = await this.#ask("hgetall", [], ALL_LATE_MS);
    return new Map(Object.entries(reply as Record<string, string>));
  }

  /** Undefined if other writers keep changing the records. */
  async #unchanged(piece: number): Promise<HashFields | undefined> {
    let before = await this.mark();
    for (let tried = 1; tried <= TRIES_MAX; tried++) {
      const found = await this.#scanned(piece);
      const after = await this.mark();
      const isOne = after.version === before.version && after.fields === before.fields;
      if (isOne && found.size === after.fields) return found;
      before = after;
    }
    return undefined;
  }

  async #scanned(piece: number): Promise<HashFields> {
    const found = new Map<string, string>();
    let cursor = "0";
    do {
      const reply = await this.#ask("hscan", [cursor, "COUNT", piece]);
      const [next, flat] = replyList(reply) as [string, readonly string[]];
      for (let i = 0; i < flat.length; i += 2) found.set(flat[i] as string, flat[i + 1] as string);
      cursor = next;
    } while (cursor !== "0");
    return found;
  }

  #ask(name: string, args: readonly (string | number)[], lateMs = LATE_MS): Promise<unknown> {
    return withTimeout(this.#link.send(this.key, name, [this.key, ...args]), lateMs);
  }
}
