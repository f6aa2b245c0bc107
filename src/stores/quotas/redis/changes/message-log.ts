import { type TellDenied, tellingDenied } from "../../../redis/denied-rights.ts";
import type { Link } from "../../../redis/link.ts";
import { withTimeout } from "../../../redis/store-failure.ts";
import { isDetail } from "./invalidation-message.ts";

/** The last messages that the store keeps: more than gateways send in the time of a failover. */
export const LOGGED_MAX = 200;
/** The most characters of the accounts of one message. If there are more, the entry says "all". */
const LOGGED_CHARACTERS_MAX = 1_000;
/** Messages by which a gateway recognizes an older copy of the store. */
const KNOWN_MAX = 10_000;
const LATE_MS = 1_000;

/** A message that the store has counted; `name` is its own, whatever its number is. */
type LoggedMessage = {
  readonly number: number;
  readonly name: string;
  readonly ids: readonly string[];
};

/**
 * The accounts that the log keeps of a message: without counts, which gateways ask for again, and
 * with their bans and resets if there is room.
 */
export function loggedIds(what: string): string {
  const ids = what.split(" ").filter((id) => !id.includes("="));
  const texts = [ids, ids.filter((id) => !isDetail(id))].map((each) => each.join(" "));
  return texts.find(({ length }) => length <= LOGGED_CHARACTERS_MAX) ?? "*";
}

/**
 * The last messages by number, in the store, and those that this gateway knows. A store that was
 * emptied, restored or replaced by a replica counts numbers again that it had given before, so a
 * number alone does not tell which message it stands for. An earlier version logs no message.
 */
export class MessageLog {
  readonly #link: Link;
  readonly #key: string;
  readonly #tellDenied: TellDenied;
  readonly #known = new Set<string>();

  constructor(link: Link, key: string, tellDenied: TellDenied) {
    this.#link = link;
    this.#key = key;
    this.#tellDenied = tellDenied;
  }

  know(name: string): void {
    this.#known.delete(name);
    this.#known.add(name);
    if (this.#known.size <= KNOWN_MAX) return;
    const [oldest = ""] = this.#known;
    this.#known.delete(oldest);
  }

  /** The messages up to this number, in their order; undefined if they cannot be read. */
  async read(last: number): Promise<readonly LoggedMessage[] | undefined> {
    const answer = withTimeout(this.#link.send(this.#key, "hgetall", [this.#key]), LATE_MS);
    const reply = await tellingDenied(this.#tellDenied, `HGETALL ${this.#key}`, answer).catch(
      () => undefined,
    );
    if (reply === undefined) return undefined;
    // The client library turns the list that Redis sends into an object.
    return Object.entries(reply as Record<string, string>)
      .map(([number, text]) => {
        const [name = "", ...ids] = text.split(" ");
        return { number: Number(number), name, ids };
      })
      .filter(({ number }) => number <= last && number > last - LOGGED_MAX)
      .sort((a, b) => a.number - b.number);
  }

  /**
   * The accounts of each message that this gateway does not know, "*" for all. Messages before the
   * first of the log are unknown too, unless this gateway knows that one.
   */
  missed(logged: readonly LoggedMessage[]): readonly (readonly string[])[] {
    const unknown = logged.filter(({ name }) => !this.#known.has(name));
    const [first] = logged;
    if (first === undefined || unknown.length === 0) return [];
    return unknown[0] === first && first.number > 1 ? [["*"]] : unknown.map(({ ids }) => ids);
  }
}
