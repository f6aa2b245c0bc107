import type { AccountName } from "./store.ts";

/** Of names that are kept with their key: building and hashing the text costs a microsecond. */
const ids = new WeakMap<AccountName, string>();

/** An account as one text: environments have no colon in their names. */
export function accountId(name: AccountName): string {
  let id = ids.get(name);
  if (id === undefined) {
    id = `${name.environment}:${name.account}`;
    ids.set(name, id);
  }
  return id;
}

/** The account that `accountId` made the text of. */
export function accountOf(id: string): AccountName {
  const colon = id.indexOf(":");
  return { environment: id.slice(0, colon), account: id.slice(colon + 1) };
}
