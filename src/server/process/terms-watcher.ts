import { inSlices } from "../../base/event-loop.ts";
import { SerialQueue } from "../../base/serial-queue.ts";
import { hasOtherTerms, type RecordTransition } from "../../core/keys/record-events.ts";
import type { AccountRecord, KeyRecord, Records } from "../../core/keys/records.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import type { QuotaStore } from "../../stores/quotas/quota-store.ts";
import { findChangedRecords } from "../events/record-change-watcher.ts";

/**
 * Drops what is known of the accounts whose windows have changed: the end of a known refusal may be
 * another one by an anchor that was read late. What is known of all others stays, because their
 * bans are to hold even if the store has lost them.
 */
export class TermsWatcher {
  readonly #quotas: Pick<QuotaStore, "invalidate">;
  #records: Records;

  constructor(
    keys: Pick<KeyStore, "records" | "onChange">,
    quotas: Pick<QuotaStore, "invalidate">,
  ) {
    this.#quotas = quotas;
    this.#records = keys.records();
    const comparing = new SerialQueue();
    keys.onChange(() => void comparing.run(() => this.#compare(keys.records())));
  }

  async #compare(after: Records): Promise<void> {
    const before = this.#records;
    this.#records = after;
    await this.#outdate(await findChangedRecords(before.accounts, after.accounts), ({ id }) => id);
    await this.#outdate(
      await findChangedRecords(before.keys, after.keys),
      ({ account }) => account,
    );
  }

  async #outdate<T extends AccountRecord | KeyRecord>(
    changed: readonly RecordTransition<T>[],
    accountOf: (record: T) => string,
  ): Promise<void> {
    await inSlices(changed, (transition) => {
      if (!hasOtherTerms(transition)) return;
      const [, record] = transition;
      this.#quotas.invalidate({ environment: record.environment, account: accountOf(record) });
    });
  }
}
