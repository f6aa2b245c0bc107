import { inSlices } from "../../../base/event-loop.ts";
import { isObject } from "../../../base/is-object.ts";
import {
  type AccountRecord,
  isWorking,
  type KeyRecord,
  type Records,
} from "../../../core/keys/records.ts";
import type { JsonMistake } from "../../files/damaged-file.ts";
import type { JsonPath } from "../../files/json-position.ts";
import { type LegacyAccountFields, RecordReader } from "./record-format.ts";

/** A record that cannot be used. Its value stays as it is, so that an operator can repair it. */
export type DamagedRecord = {
  readonly kind: "key" | "account";
  /** The id that the record states; undefined if not even that can be read. */
  readonly id: string | undefined;
  readonly value: unknown;
  readonly mistakes: readonly JsonMistake[];
  /** The record itself if it is sound and nothing but its account is missing. */
  readonly orphan?: KeyRecord;
  /** The record as it was known before. It stands in for the damaged one. */
  kept?: KeyRecord | AccountRecord;
};

/** The content of a file or of Redis. */
export type ReadRecords = {
  readonly records: Records;
  readonly damaged: readonly DamagedRecord[];
  /** Whether some records are of an older version. If so, the next change rewrites all of them. */
  readonly needsUpgrade: boolean;
};

/** Collects records one by one. A record that cannot be used is set aside; the others are used. */
export class RecordCollector {
  readonly #reader = new RecordReader();
  readonly #keys = new Map<string, KeyRecord>();
  readonly #digests = new Set<string>();
  readonly #accounts = new Map<string, AccountRecord>();
  readonly #legacy = new Map<
    string,
    { readonly key: KeyRecord; readonly terms: LegacyAccountFields }[]
  >();
  readonly #damaged: DamagedRecord[] = [];
  /** Keys that were read before their account. (A file has its accounts first.) */
  readonly #orphans = new Map<string, { readonly path: JsonPath; readonly value: unknown }>();

  readonly #isKnownAccount: (id: string) => boolean;

  /** `isKnownAccount`: whether an account is known already, if only some records are collected. */
  constructor(isKnownAccount: (id: string) => boolean = () => false) {
    this.#isKnownAccount = isKnownAccount;
  }

  /** `name` is the name under which the record is kept, if it has one. */
  key(value: unknown, path: JsonPath, name?: string): void {
    if (this.#isNoRecord("key", value, path, name)) return;
    const { record, legacy } = this.#reader.key(value, path);
    this.#misnamed(record.id, path, name);
    const { id, digest } = record;
    if (this.#keys.has(id)) this.#reader.note([...path, "id"], "another key has the same id", id);
    if (this.#digests.has(digest)) {
      this.#reader.note([...path, "digest"], "another key has the same digest", "…");
    }
    if (this.#setAside("key", value, name)) return;
    this.#keys.set(id, record);
    this.#digests.add(digest);
    if (!this.#hasAccount(record)) this.#orphans.set(id, { path, value });
    if (legacy === undefined) return;
    const ofAccount = this.#legacy.get(record.account) ?? [];
    ofAccount.push({ key: record, terms: legacy });
    this.#legacy.set(record.account, ofAccount);
  }

  account(value: unknown, path: JsonPath, name?: string): void {
    if (this.#isNoRecord("account", value, path, name)) return;
    const record = this.#reader.account(value, path);
    this.#misnamed(record.id, path, name);
    if (this.#accounts.has(record.id)) {
      this.#reader.note([...path, "id"], "another account has the same id", record.id);
    }
    if (!this.#setAside("account", value, name)) this.#accounts.set(record.id, record);
  }

  /**
   * All records that were read. A damaged record is replaced by the one in `known`, if there is
   * one. An account that version 1 did not write is made from its newest working key, at `nowMs`.
   */
  async end(known: Records, nowMs: number): Promise<ReadRecords> {
    const needsUpgrade = this.#legacy.size > 0;
    this.#keepKnown(known);
    for (const [id, keys] of this.#legacy) {
      if (!this.#accounts.has(id)) this.#accounts.set(id, accountFrom(id, keys, nowMs));
    }
    await inSlices(this.#orphans, ([id, { path, value }]) => {
      const key = this.#keys.get(id) as KeyRecord;
      if (this.#hasAccount(key)) return;
      const why = "there is no record of this account";
      const mistakes = [{ path: [...path, "account"], why: `${why}: ${key.account}` }];
      this.#keys.delete(id);
      this.#damaged.push({ kind: "key", id, value, mistakes, orphan: key });
    });
    const records = { keys: [...this.#keys.values()], accounts: [...this.#accounts.values()] };
    return { records, damaged: this.#damaged, needsUpgrade };
  }

  #hasAccount({ account }: KeyRecord): boolean {
    return this.#accounts.has(account) || this.#isKnownAccount(account);
  }

  #keepKnown(known: Records): void {
    const damaged = new Map(this.#damaged.map((each) => [`${each.kind} ${each.id}`, each]));
    if (damaged.size === 0) return;
    for (const account of known.accounts) {
      const instead = damaged.get(`account ${account.id}`);
      if (instead === undefined || this.#accounts.has(account.id)) continue;
      this.#accounts.set(account.id, account);
      instead.kept = account;
    }
    for (const key of known.keys) {
      const instead = damaged.get(`key ${key.id}`);
      if (instead === undefined || this.#keys.has(key.id) || this.#digests.has(key.digest))
        continue;
      this.#keys.set(key.id, key);
      instead.kept = key;
    }
  }

  #isNoRecord(
    kind: DamagedRecord["kind"],
    value: unknown,
    path: JsonPath,
    name: string | undefined,
  ): boolean {
    if (isObject(value)) return false;
    this.#reader.note(
      path,
      `it must be a record of ${kind === "key" ? "a key" : "an account"}`,
      value,
    );
    return this.#setAside(kind, value, name);
  }

  #misnamed(id: string, path: JsonPath, name: string | undefined): void {
    if (name === undefined || id === "" || id === name) return;
    this.#reader.note([...path, "id"], "it must be the name of the field that holds it", id);
  }

  #setAside(kind: DamagedRecord["kind"], value: unknown, name: string | undefined): boolean {
    const mistakes = this.#reader.mistakes.splice(0);
    if (mistakes.length === 0) return false;
    const said = (value as { readonly id?: unknown } | null | undefined)?.id;
    const id = name ?? (typeof said === "string" ? said : undefined);
    this.#damaged.push({ kind, id, value, mistakes });
    return true;
  }
}

/** The account has the terms of its newest working key, or of the newest one if none works. */
function accountFrom(
  id: string,
  keys: readonly { readonly key: KeyRecord; readonly terms: LegacyAccountFields }[],
  nowMs: number,
): AccountRecord {
  const working = keys.filter(({ key }) => isWorking(key, nowMs));
  const [{ key, terms }] = (working.length > 0 ? working : keys).toSorted(
    (a, b) => b.key.createdMs - a.key.createdMs,
  ) as [{ key: KeyRecord; terms: LegacyAccountFields }];
  const createdMs = Math.min(...keys.map((each) => each.key.createdMs));
  return { id, environment: key.environment, ...terms, meta: {}, createdMs };
}
