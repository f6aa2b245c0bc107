import { quoteValue } from "../../base/messages.ts";
import { conflictRefusal, type EditRefusal } from "./edit-rules.ts";
import { maskKeys } from "./key.ts";
import { findById } from "./record-index.ts";
import {
  type AccountRecord,
  isAddressName,
  isSuspended,
  isWorking,
  type KeyRecord,
  type Records,
} from "./records.ts";

/** `key` is set if the ID is that of a key. `keys` are all keys of its account, oldest first. */
export type AccountKeys = {
  readonly ok: true;
  readonly account: AccountRecord;
  readonly key: KeyRecord | undefined;
  readonly keys: readonly KeyRecord[];
};

/** Finds what an ID names: a key or an account. If both have it, the key (with its account). */
export function findKeys({ keys, accounts }: Records, id: string): AccountKeys | EditRefusal {
  const key = findById(keys, id);
  const name = key?.account ?? id;
  const account = findById(accounts, name);
  if (account === undefined) return unknownIdRefusal(id);
  return { ok: true, account, key, keys: keys.filter((record) => record.account === name) };
}

/** The account that an ID names: an account, or that of a key. If both have it, the account. */
export function findAccount({ keys, accounts }: Records, id: string): AccountRecord | undefined {
  const named = findById(accounts, id);
  if (named !== undefined) return named;
  const owner = findById(keys, id)?.account;
  return owner === undefined ? undefined : findById(accounts, owner);
}

/** Whether an account is of the environment and on the plan of a filter, as far as it names them. */
export function isChosen(
  account: Pick<AccountRecord, "environment" | "plan">,
  filter: {
    readonly environment?: string | null | undefined;
    readonly plan?: string | null | undefined;
  },
): boolean {
  const { environment, plan } = account;
  return (filter.environment ?? environment) === environment && (filter.plan ?? plan) === plan;
}

/** Picks one key to edit. An account stands for its only working key, or its only key. */
export function pickKey(
  records: Records,
  id: string,
  nowMs: number,
): { readonly ok: true; readonly key: KeyRecord } | EditRefusal {
  const named = findById(records.keys, id);
  if (named !== undefined) return { ok: true, key: named };
  const found = findKeys(records, id);
  if (!found.ok) return found;
  const working = found.keys.filter((record) => isWorking(record, nowMs));
  const [only, ...others] = working.length === 0 ? found.keys.slice(-1) : working;
  if (only !== undefined && others.length === 0) return { ok: true, key: only };
  if (only === undefined)
    return conflictRefusal(`Cannot choose a key of account ${id}: it has none`);
  const names = working.slice(0, 10).map((record) => record.id);
  return conflictRefusal(
    `Cannot choose a key of account ${id}, as ${working.length} work: name one of ${names.join(", ")}`,
  );
}

/** `environment` is the one that has the ID, if a caller looked for it in another one. */
export function unknownIdRefusal(id: string, environment?: string): EditRefusal {
  const name = quoteValue(maskKeys(id));
  const message =
    environment === undefined
      ? `Cannot find ${name}: no key or account has this ID`
      : `Cannot find ${name} in that environment: it is in ${environment}`;
  return { ok: false, reason: "unknown", message };
}

/** Why the account that an ID names has no usage by day: it is an address. Undefined for other IDs. */
export function addressHistoryError(id: string): string | undefined {
  if (!isAddressName(id)) return undefined;
  return "Addresses have no history: `usage ID` without --days and --month tells the running windows of one";
}

/** Why the account that an ID names cannot be banned: it is an address. Undefined for other IDs. */
export function addressBanError(id: string): string | undefined {
  if (!isAddressName(id)) return undefined;
  return "Addresses are not banned: `deny` of an environment refuses one, and the limits of its `public` plan hold for each";
}

/** The most different words of a search. Each has a bit in a number. */
export const SEARCH_WORDS_MAX = 16;

/** The different words of a search, in lower case. */
export function searchWords(text: string): readonly string[] {
  return [...new Set(text.toLowerCase().split(/\s+/).filter(Boolean))];
}

/**
 * Searches accounts by words of `searchWords`, ignoring case. Each word is in the id, environment, plan, state or
 * metadata of the account, or in the id or name of one of its keys. Every key is added first, then
 * every account is matched, so that callers can work in slices.
 */
export class AccountSearch {
  readonly #words: readonly string[];
  /** The words found in the keys of an account, as bits. */
  readonly #inKeys = new Map<string, number>();

  /** The words are at most SEARCH_WORDS_MAX. */
  constructor(words: readonly string[]) {
    this.#words = words;
  }

  addKey({ id, name, account }: Pick<KeyRecord, "id" | "name" | "account">): void {
    const found = this.#bitsIn(`${id}\n${name}`);
    if (found !== 0) this.#inKeys.set(account, (this.#inKeys.get(account) ?? 0) | found);
  }

  /** Whether the account matches. `nowMs` is Unix milliseconds: a suspension may have ended. */
  matches(account: AccountRecord, nowMs: number): boolean {
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
