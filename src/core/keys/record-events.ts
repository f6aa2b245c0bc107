import { hash } from "node:crypto";
import { isObject } from "../../base/is-object.ts";
import type { AccountRecord, KeyRecord } from "./records.ts";

/**
 * A change of the records that is announced (docs/reference/events.md#kinds). Gateways that see the
 * same change compute the same `marker`, which decides the one that announces it.
 */
export type RecordEvent = {
  readonly kind:
    | "key_issued"
    | "key_rotated"
    | "key_revoked"
    | "caps_added"
    | "account_changed"
    | "keys_imported";
  readonly marker: string;
  readonly details: ChangeDetails | ImportDetails;
};

type ChangeDetails = Readonly<Record<"account" | "env", string>> & {
  readonly key?: string;
  readonly plan?: string;
  readonly newWindows?: readonly string[];
  readonly successor?: string;
};
type ImportDetails = { readonly import: string } & Readonly<
  Record<"keys" | "accounts" | "ended", number>
>;

/** A record, and the one with the same id that it replaces. */
export type RecordTransition<T> = readonly [was: T | undefined, is: T];

/**
 * Whether requests may be counted in other windows after a record was changed: those of an account,
 * or those of a key with caps. A new record changes nothing that was counted before.
 */
export function hasOtherTerms([was, is]: RecordTransition<AccountRecord | KeyRecord>): boolean {
  return was !== undefined && JSON.stringify(termsOf(was)) !== JSON.stringify(termsOf(is));
}

function termsOf(record: AccountRecord | KeyRecord): unknown {
  return "digest" in record ? [record.caps] : [record.plan, record.limits, record.calendar];
}

/** The event of one key. `isSuccessor`: another was rotated to it, and that event covers both. */
export function keyEvent(
  [was, is]: RecordTransition<KeyRecord>,
  { plan, isSuccessor }: { readonly plan: string; readonly isSuccessor: boolean },
): RecordEvent | undefined {
  const { id: key, account, environment: env, replacedBy: successor } = is;
  if (was === undefined) {
    if (isSuccessor || is.revokedMs !== undefined) return undefined;
    return { kind: "key_issued", marker: `issued ${key}`, details: { key, account, env, plan } };
  }
  if (is.revokedMs !== undefined && was.revokedMs === undefined) {
    return { kind: "key_revoked", marker: `revoked ${key}`, details: { key, account, env } };
  }
  if (successor === undefined || successor === was.replacedBy) return undefined;
  const marker = `rotated ${key} ${successor}`;
  return { kind: "key_rotated", marker, details: { key, successor, account, env } };
}

/** The event of the caps that a key got, of windows in which it had none: they count from then on. */
export function capsEvent([was, is]: RecordTransition<KeyRecord>): RecordEvent | undefined {
  if (was === undefined) return undefined;
  const newWindows = addedWindows(was.caps?.limits, is.caps?.limits).map((each) => `key.${each}`);
  if (newWindows.length === 0) return undefined;
  const { id: key, account, environment: env, caps } = is;
  const marker = `caps ${key} ${hash("sha256", JSON.stringify(caps?.limits), "hex")}`;
  return { kind: "caps_added", marker, details: { key, account, env, newWindows } };
}

/**
 * The imports among changes: an import is one event, whatever it brings. Each counts its new keys,
 * its new accounts, and the keys that it ended sooner.
 */
export class ImportEvents {
  readonly #imports = new Map<string, Record<"keys" | "accounts" | "ended", number>>();

  /** Returns whether the change is one of an import, which has no event of its own. */
  take([was, is]: RecordTransition<KeyRecord | AccountRecord>): boolean {
    const { importId } = is;
    if (importId === undefined || importId === was?.importId) return false;
    const counts = this.#imports.get(importId) ?? { keys: 0, accounts: 0, ended: 0 };
    this.#imports.set(importId, counts);
    if (was !== undefined) counts.ended += 1;
    else if ("digest" in is) counts.keys += 1;
    else counts.accounts += 1;
    return true;
  }

  events(): RecordEvent[] {
    return [...this.#imports].map(([id, counts]) => {
      const details = { import: id, ...counts };
      return { kind: "keys_imported", marker: `imported ${id}`, details };
    });
  }
}

/** The event of an existing account. A new account is announced with its first key. */
export function accountEvent([was, is]: RecordTransition<AccountRecord>): RecordEvent | undefined {
  if (was === undefined) return undefined;
  const text = contentOf(is);
  if (contentOf(was) === text) return undefined;
  const { id: account, environment: env, plan } = is;
  // Only the new record is hashed: gateways may have seen different records before it.
  const marker = `account ${env} ${account} ${hash("sha256", text, "hex")}`;
  const newWindows = addedWindows(was.limits, is.limits);
  return { kind: "account_changed", marker, details: { account, env, plan, newWindows } };
}

type Limits = readonly { readonly window: string }[];

/** The windows that have a limit now and had none before. */
function addedWindows(was: Limits = [], is: Limits = []): string[] {
  const before = new Set(was.map(({ window }) => window));
  return is.map(({ window }) => window).filter((each) => !before.has(each));
}

/** One text for one content: an edit and a reader of the record may order its members differently. */
function contentOf(record: AccountRecord): string {
  return JSON.stringify(record, (_, value: unknown) => {
    if (!isObject(value)) return value;
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
  });
}
