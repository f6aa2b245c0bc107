import { inSlices } from "../../base/event-loop.ts";
import { SerialQueue } from "../../base/serial-queue.ts";
import { hasOtherTerms, type RecordTransition } from "../../core/keys/record-events.ts";
import type { AccountRecord, KeyRecord } from "../../core/keys/records.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import type { QuotaStore } from "../../stores/quotas/quota-store.ts";
import { findChangedRecords } from "../events/record-change-watcher.ts";

/**
 * Drops what is known of the accounts whose windows have changed: the end of a known refusal may be
 * another one by an anchor that was read late. What is known of all others stays, because their
 * bans are to hold even if the store has lost them.
 */
export function watchTerms(
  keys: Pick<KeyStore, "records" | "onChange">,
  quotas: Pick<QuotaStore, "invalidate">,
): void {
  let before = keys.records();
  const comparing = new SerialQueue();
  const compare = async () => {
    const [was, is] = [before, keys.records()];
    before = is;
    const accounts = await findChangedRecords(was.accounts, is.accounts);
    await invalidateChanged(quotas, accounts, ({ id }) => id);
    const changed = await findChangedRecords(was.keys, is.keys);
    await invalidateChanged(quotas, changed, ({ account }) => account);
  };
  keys.onChange(() => void comparing.run(compare));
}

async function invalidateChanged<T extends AccountRecord | KeyRecord>(
  quotas: Pick<QuotaStore, "invalidate">,
  changed: readonly RecordTransition<T>[],
  accountOf: (record: T) => string,
): Promise<void> {
  await inSlices(changed, (transition) => {
    if (!hasOtherTerms(transition)) return;
    const [, record] = transition;
    quotas.invalidate({ environment: record.environment, account: accountOf(record) });
  });
}
