import { SerialQueue } from "../../../base/serial-queue.ts";
import type { AccountRecord, KeyRecord, Records } from "../../../core/keys/records.ts";
import type { RecordEdit } from "../key-store.ts";
import { RecordSet } from "./record-set.ts";

/**
 * The part of a key store that answers from its copy of all records in memory. The store that
 * extends this class decides where the records are kept, and how they are read and changed there.
 */
export abstract class CachedKeyStore {
  protected readonly held = new RecordSet();
  protected readonly queue = new SerialQueue();
  /** A line for each mistake in a damaged record. */
  protected damageLines: readonly string[] = [];
  #timer: NodeJS.Timeout | undefined;
  #isPolling = true;

  find(digest: string): KeyRecord | undefined {
    return this.held.find(digest);
  }

  account(id: string): AccountRecord | undefined {
    return this.held.account(id);
  }

  records(): Records {
    return this.held.records;
  }

  onChange(listener: () => void): void {
    this.held.onChange(listener);
  }

  damage(): readonly string[] {
    return this.damageLines;
  }

  change<T>(edit: RecordEdit<T>): Promise<T> {
    return this.queue.run(() => this.apply(edit));
  }

  refresh(): Promise<void> {
    return this.queue.run(() => this.reread());
  }

  betweenChanges<T>(work: (reread: () => Promise<void>) => Promise<T>): Promise<T> {
    return this.queue.run(() => work(() => this.reread()));
  }

  /** Looks again and again, with a pause before each time, until `stopPolling`. */
  protected poll(pauseMs: number, look: () => Promise<void>): void {
    if (!this.#isPolling) return;
    this.#timer = setTimeout(() => {
      void look().finally(() => this.poll(pauseMs, look));
    }, pauseMs).unref();
  }

  protected stopPolling(): void {
    this.#isPolling = false;
    clearTimeout(this.#timer);
  }

  /** KeyStore.refresh, while no change is being made. */
  protected abstract reread(): Promise<void>;

  /** KeyStore.change, for one edit at a time. */
  protected abstract apply<T>(edit: RecordEdit<T>): Promise<T>;
}
