import { randomBytes } from "node:crypto";
import type { AccountRecord, KeyRecord, Records } from "../../../src/core/keys/records.ts";
import type { KeyStore } from "../../../src/stores/keys/key-store.ts";

/** A record that a store accepts, with a digest of its own. */
export function record(id: string, more: Partial<KeyRecord> = {}): KeyRecord {
  return {
    id,
    digest: randomBytes(32).toString("hex"),
    name: "",
    environment: "production",
    account: id,
    scopes: [],
    from: [],
    createdMs: Date.UTC(2026, 0, 1) + Number.parseInt(randomBytes(3).toString("hex"), 16),
    ...more,
  };
}

/** The account of a key, as plain as can be. */
export function accountFor({ account, environment, createdMs }: KeyRecord): AccountRecord {
  return { id: account, environment, plan: "free", limits: [], meta: {}, createdMs };
}

/** Adds keys, with accounts for those whose account is not there. */
export async function add(store: KeyStore, ...keys: readonly KeyRecord[]): Promise<void> {
  await store.change((before) => {
    const known = new Set(before.accounts.map(({ id }) => id));
    const fresh = keys.filter(({ account }) => !known.has(account) && known.add(account));
    const records = {
      keys: [...before.keys, ...keys],
      accounts: [...before.accounts, ...fresh.map(accountFor)],
    };
    return { records, result: undefined };
  });
}

/** Keys with their accounts. */
export function withAccounts(...keys: readonly KeyRecord[]): Records {
  return { keys, accounts: keys.map(accountFor) };
}
