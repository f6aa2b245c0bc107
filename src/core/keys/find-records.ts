import { conflictRefusal, type EditRefusal, quoteValue } from "./edit-rules.ts";
import { maskKeys } from "./key.ts";
import { findById } from "./record-index.ts";
import { type AccountRecord, isWorking, type KeyRecord, type Records } from "./records.ts";

/** `key` is set when the ID is that of a key; `keys` are all of its account, oldest first. */
export type AccountKeys = {
  readonly ok: true;
  readonly account: AccountRecord;
  readonly key: KeyRecord | undefined;
  readonly keys: readonly KeyRecord[];
};

/** An ID means a key, or an account; where both have it, the key (of that account). */
export function findKeys({ keys, accounts }: Records, id: string): AccountKeys | EditRefusal {
  const key = findById(keys, id);
  const name = key?.account ?? id;
  const account = findById(accounts, name);
  if (account === undefined) return unknownIdRefusal(id);
  return { ok: true, account, key, keys: keys.filter((record) => record.account === name) };
}

/** The account that an ID names: an account, or that of a key; where both have it, the account. */
export function findAccount({ keys, accounts }: Records, id: string): AccountRecord | undefined {
  const named = findById(accounts, id);
  if (named !== undefined) return named;
  const owner = findById(keys, id)?.account;
  return owner === undefined ? undefined : findById(accounts, owner);
}

/** One key to edit: an account stands for its only working key, or its only key. */
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

export function unknownIdRefusal(id: string): EditRefusal {
  return {
    ok: false,
    because: "unknown",
    message: `Cannot find ${quoteValue(maskKeys(id))}: no key or account has this ID`,
  };
}
