import { randomBytes } from "node:crypto";
import type { AccountRecord, KeyRecord, Records } from "../../src/core/keys/records.ts";

/** A key and what is said of its account, in one. */
export type GivenKey = Partial<KeyRecord> &
  Partial<Pick<AccountRecord, "plan" | "limits" | "meta" | "suspended">>;

/** Whole records: each key with what it lacks, and an account for each that is named. */
export function recordsFrom(given: readonly GivenKey[]): Records {
  const accounts = new Map<string, AccountRecord>();
  const keys = given.map(({ plan = "free", limits = [], meta = {}, suspended, ...key }, i) => {
    const id = key.id ?? `fixed-${i}`;
    const digest = key.digest ?? randomBytes(32).toString("hex");
    const rest = { name: "", environment: "production", scopes: [], from: [], createdMs: 0 };
    const record: KeyRecord = { ...rest, id, account: id, digest, ...key };
    const { account, environment, createdMs } = record;
    const held = suspended === undefined ? {} : { suspended };
    accounts.set(account, { id: account, environment, plan, limits, meta, createdMs, ...held });
    return record;
  });
  return { keys, accounts: [...accounts.values()] };
}
