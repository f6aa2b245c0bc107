import { setTimeout as pause } from "node:timers/promises";
import { inSlices } from "../../base/event-loop.ts";
import { SerialQueue } from "../../base/serial-queue.ts";
import {
  accountEvent,
  capsEvent,
  ImportEvents,
  keyEvent,
  type RecordEvent,
  type RecordTransition,
} from "../../core/keys/record-events.ts";
import { findById } from "../../core/keys/record-index.ts";
import type { Records } from "../../core/keys/records.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import type { QuotaAdmin } from "../../stores/quotas/quota-store.ts";
import type { Log } from "../../telemetry/log/log.ts";

/** Markers that are set in one call. */
const MARKS_AT_ONCE = 64;
/** The most changes that wait while the store is unreachable. */
const WAITING_MAX = 10_000;
const AGAIN_MS = 1_000;

/** A key is issued, rotated and revoked once. */
const KEY_MARKER_MS = 24 * 3_600_000;
/**
 * An account, and the caps of a key, may change back to an earlier state. Every gateway sees a change within a second, so
 * after this time the same state is a new change.
 */
const STATE_MARKER_MS = 15_000;

type RecordChangeSources = {
  readonly keys: Pick<KeyStore, "records" | "ready" | "onChange">;
  readonly quotas: Pick<QuotaAdmin, "markFirst">;
  readonly log: Log;
};

/**
 * Logs which keys and accounts have changed, by any writer, by comparing the records. Each change
 * is logged by the gateway that sets its marker first, so only once over all gateways
 * (docs/reference/events.md#kinds). Changes from before the start are ignored.
 */
export class RecordChangeWatcher {
  readonly #sources: RecordChangeSources;
  #records: Records | undefined;
  #waiting: RecordEvent[] = [];
  readonly #comparing = new SerialQueue();
  #telling = false;
  readonly #stopping = new AbortController();
  #dropped = 0;

  constructor(sources: RecordChangeSources) {
    this.#sources = sources;
    const { keys } = sources;
    if (keys.ready) this.#records = keys.records();
    keys.onChange(() => {
      void this.#comparing.run(() => this.#compare());
    });
  }

  /** The number of changes that were dropped because too many waited. */
  get dropped(): number {
    return this.#dropped;
  }

  stop(): void {
    this.#stopping.abort();
  }

  async #compare(): Promise<void> {
    const before = this.#records;
    const after = this.#sources.keys.records();
    this.#records = after;
    if (before === undefined) return;
    await eachNews(before, after, (event) => this.#take(event));
    if (!this.#telling) void this.#tell();
  }

  #take(event: RecordEvent): void {
    if (this.#waiting.length < WAITING_MAX) this.#waiting.push(event);
    else this.#dropped += 1;
  }

  async #tell(): Promise<void> {
    this.#telling = true;
    const { signal } = this.#stopping;
    while (this.#waiting.length > 0 && !signal.aborted) {
      const some = this.#waiting.slice(0, MARKS_AT_ONCE);
      try {
        const first = await Promise.all(some.map((event) => this.#isFirst(event)));
        this.#waiting.splice(0, some.length);
        for (const [i, { kind, details }] of some.entries()) {
          if (first[i]) this.#sources.log.info(kind, details);
        }
      } catch {
        // The store is unreachable. The gateway that sets the marker later logs them.
        await pause(AGAIN_MS, undefined, { ref: false, signal }).catch(() => {});
      }
    }
    this.#telling = false;
  }

  #isFirst({ kind, marker }: RecordEvent): Promise<boolean> {
    const isState = kind === "account_changed" || kind === "caps_added";
    const lifeMs = isState ? STATE_MARKER_MS : KEY_MARKER_MS;
    return this.#sources.quotas.markFirst(marker, lifeMs);
  }
}

/** Calls `take` with all changes of the records, keys first, in their order, imports last. */
async function eachNews(
  before: Records,
  after: Records,
  take: (event: RecordEvent) => void,
): Promise<void> {
  const imports = new ImportEvents();
  const keys = await findChangedRecords(before.keys, after.keys);
  const successors = new Set(keys.map(([, { replacedBy }]) => replacedBy));
  await inSlices(keys, (pair) => {
    if (imports.take(pair)) return;
    const [was, { id, account }] = pair;
    // A new key is logged with its plan. Its account is found by index, because there may be
    // 100,000.
    const plan = was === undefined ? findById(after.accounts, account)?.plan : undefined;
    const about = { plan: plan ?? "", isSuccessor: successors.has(id) };
    for (const event of [keyEvent(pair, about), capsEvent(pair)]) {
      if (event !== undefined) take(event);
    }
  });
  const accounts = await findChangedRecords(before.accounts, after.accounts);
  await inSlices(accounts, (pair) => {
    if (imports.take(pair)) return;
    const event = accountEvent(pair);
    if (event !== undefined) take(event);
  });
  for (const event of imports.events()) take(event);
}

/**
 * The records that are new or not the same object as before, each with its predecessor, in pieces:
 * after another process has written a file, every record is another object.
 */
export async function findChangedRecords<T extends { readonly id: string }>(
  before: readonly T[],
  after: readonly T[],
): Promise<readonly RecordTransition<T>[]> {
  const old = new Map<string, T>();
  const changed: T[] = [];
  await inSlices(after.length > before.length ? after : before, (_, i) => {
    const [was, is] = [before[i], after[i]];
    if (was === is) return;
    if (was !== undefined) old.set(was.id, was);
    if (is !== undefined) changed.push(is);
  });
  const pairs: RecordTransition<T>[] = [];
  await inSlices(changed, (is) => {
    const was = old.get(is.id);
    if (was !== is) pairs.push([was, is]);
  });
  return pairs;
}
