import { inSlices } from "../../../base/event-loop.ts";
import { cleanText } from "../../../base/messages.ts";
import { findById } from "../../../core/keys/record-index.ts";
import type { Records } from "../../../core/keys/records.ts";
import type { Reporter } from "../../../telemetry/log/log.ts";
import { accountDifferences, isEqual, keyDifferences } from "./record-differences.ts";
import { encodeAccount, encodeKey } from "./record-format.ts";

/** The most records that one line of the log names. */
const NAMES_MAX = 20;

/**
 * The names of the known records that are other in an older state, each with what `keys import`
 * would say that differs; a name of a key or its expiry has no such word. Undefined if no record is
 * other than it is known: then nothing but records that are gone was lost.
 */
export async function differencesFrom(
  known: Records,
  { keys, accounts }: Records,
  nowMs: number,
): Promise<readonly string[] | undefined> {
  const names: string[] = [];
  let differs = false;
  const note = (name: string, parts: readonly string[] | undefined) => {
    differs = true;
    if (parts !== undefined) names.push(parts.length > 0 ? `${name} (${parts.join(", ")})` : name);
  };
  await inSlices(accounts, (account) => {
    const was = findById(known.accounts, account.id);
    if (isEqual(was, account, encodeAccount)) return;
    note(account.id, was && accountDifferences(was, account, nowMs));
  });
  await inSlices(keys, (key) => {
    const was = findById(known.keys, key.id);
    if (!isEqual(was, key, encodeKey)) note(`key ${key.id}`, was && keyDifferences(was, key));
  });
  return differs ? names : undefined;
}

type OlderRecords = {
  /** The store and how it may have come to this, as the subject of the message. */
  readonly older: string;
  /** How many keys there are now. */
  readonly keys: number;
  /** The names of the records that are other than known. */
  readonly differing: readonly string[];
};

/** Reports that a store went back to records that it had before. */
export function reportOlder(report: Reporter, { older, keys, differing }: OlderRecords): void {
  const names = cleanText(differing.slice(0, NAMES_MAX).join(", "));
  const more = differing.length > NAMES_MAX ? `, and ${differing.length - NAMES_MAX} more` : "";
  const why = names === "" ? older : `${older}. These differ from before: ${names}${more}`;
  report("error", "keys_older", { keys, why });
}

/** Says that revocations and expiries hold which a store had lost; `unwritten` is why it still lacks them. */
export function endsWords(store: string, unwritten?: string): string {
  const message = `${store} had forgotten that keys were revoked or expire: their ends hold`;
  return unwritten === undefined ? message : `${message} here, and cannot be written: ${unwritten}`;
}
