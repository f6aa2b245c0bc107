import { inSlices } from "../../base/event-loop.ts";
import { AccountSearch } from "../../core/keys/find-records.ts";
import type { AccountRecord, KeyRecord, Records } from "../../core/keys/records.ts";

/** Finds the accounts that have all words of the text. `nowMs` is Unix milliseconds. */
export async function searchAccounts(
  accounts: readonly AccountRecord[],
  { keys, text, nowMs }: Pick<Records, "keys"> & { readonly text: string; readonly nowMs: number },
): Promise<readonly AccountRecord[]> {
  const search = new AccountSearch(text);
  await inSlices(keys, (key) => search.note(key));
  const fitting: AccountRecord[] = [];
  await inSlices(accounts, (account) => {
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
  await inSlices(keys, (key) => {
    if (wanted.has(key.account)) held.push(key);
  });
  return held;
}
