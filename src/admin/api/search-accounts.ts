import { setImmediate as breathe } from "node:timers/promises";
import { AccountSearch } from "../../core/keys/find-records.ts";
import type { AccountRecord, KeyRecord, Records } from "../../core/keys/records.ts";

/** Records looked at before requests have their turn: a millisecond at most. */
const AT_ONCE = 2_000;

/** Calls `look` with every record; of 100,000 too without a wait for anybody else. */
async function inPieces<T>(list: readonly T[], look: (one: T) => void): Promise<void> {
  for (let from = 0; from < list.length; from += AT_ONCE) {
    for (const one of list.slice(from, from + AT_ONCE)) look(one);
    await breathe();
  }
}

/** Finds the accounts that have all words of the text. `nowMs` is Unix milliseconds. */
export async function searchAccounts(
  accounts: readonly AccountRecord[],
  { keys, text, nowMs }: Pick<Records, "keys"> & { readonly text: string; readonly nowMs: number },
): Promise<readonly AccountRecord[]> {
  const search = new AccountSearch(text);
  await inPieces(keys, (key) => search.note(key));
  const fitting: AccountRecord[] = [];
  await inPieces(accounts, (account) => {
    if (search.fits(account, nowMs)) fitting.push(account);
  });
  return fitting;
}

/** The keys of these accounts, in the order in which they were issued. */
export async function keysOfAccounts(
  accounts: readonly AccountRecord[],
  { keys }: Pick<Records, "keys">,
): Promise<readonly KeyRecord[]> {
  const wanted = new Set(accounts.map(({ id }) => id));
  const held: KeyRecord[] = [];
  await inPieces(keys, (key) => {
    if (wanted.has(key.account)) held.push(key);
  });
  return held;
}
