import type { RecordTransition } from "./record-events.ts";
import type { AccountRecord, KeyRecord } from "./records.ts";

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
