import { setTimeout as pause } from "node:timers/promises";
import { differingIndexes, inSlices } from "../../base/event-loop.ts";
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
import type { AccountRecord, KeyRecord, Records } from "../../core/keys/records.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import type { QuotaAdmin } from "../../stores/quotas/quota-store.ts";
import type { Log } from "../../telemetry/log/log.ts";

/** Markers that are set in one round trip: after a change of 100,000 accounts, many wait. */
const MARKS_AT_ONCE = 512;
/**
 * While so many changes wait, further ones are compared later, all at once. Nothing is dropped, and
 * memory is bounded while the store is unreachable.
 */
const WAITING_MAX = 100_000;
const AGAIN_MS = 1_000;

/** A key is issued, rotated and revoked once. */
const KEY_MARKER_MS = 24 * 3_600_000;
/**
 * An account, and the caps of a key, may change back to an earlier state. Every gateway sees a change
 * within a second, so a state that is seen after this time is a new change. The marker outlives it,
 * because the changes before it may wait for long.
 */
const SAME_STATE_MS = 15_000;
const STATE_MARKER_MS = 3_600_000;

/** `seenMs` is when this process heard of the change, by `performance.now()`. */
type SeenEvent = RecordEvent & { readonly seenMs: number };

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
  readonly #gone = {
    keys: new GoneRecords<KeyRecord>(),
    accounts: new GoneRecords<AccountRecord>(),
  };
  #waiting: SeenEvent[] = [];
  /** When the first change that is not compared yet was heard of. */
  #heardMs: number | undefined;
  readonly #comparing = new SerialQueue();
  #telling = false;
  readonly #stopping = new AbortController();

  constructor(sources: RecordChangeSources) {
    this.#sources = sources;
    const { keys } = sources;
    if (keys.ready) this.#records = keys.records();
    keys.onChange(() => {
      this.#heardMs ??= performance.now();
      void this.#comparing.run(() => this.#compare());
    });
  }

  stop(): void {
    this.#stopping.abort();
  }

  async #compare(): Promise<void> {
    if (this.#waiting.length >= WAITING_MAX) return;
    const seenMs = this.#heardMs;
    if (seenMs === undefined) return;
    this.#heardMs = undefined;
    const before = this.#records;
    const after = this.#sources.keys.records();
    this.#records = after;
    if (before === undefined) return;
    const changes = {
      keys: await this.#gone.keys.changes(before.keys, after.keys),
      accounts: await this.#gone.accounts.changes(before.accounts, after.accounts),
    };
    await eachNews(changes, after, (event) => void this.#waiting.push({ ...event, seenMs }));
    if (!this.#telling) void this.#tell();
  }

  async #tell(): Promise<void> {
    this.#telling = true;
    const { signal } = this.#stopping;
    while (this.#waiting.length > 0 && !signal.aborted) {
      if (await this.#tellSome()) continue;
      // The store is unreachable. The gateway that sets the marker later logs them.
      await pause(AGAIN_MS, undefined, { ref: false, signal }).catch(() => {});
    }
    this.#telling = false;
    void this.#comparing.run(() => this.#compare());
  }

  /** Logs the next changes up to the first that the store did not answer. Returns whether it answered all. */
  async #tellSome(): Promise<boolean> {
    const asked: Promise<boolean | undefined>[] = [];
    const some = this.#waiting.slice(0, MARKS_AT_ONCE);
    await inSlices(some, (event) => {
      if (this.#stopping.signal.aborted) return false;
      asked.push(this.#isFirst(event).catch(() => undefined));
      return true;
    });
    const first = await Promise.all(asked);
    const unanswered = first.indexOf(undefined);
    const told = some.slice(0, unanswered < 0 ? first.length : unanswered);
    this.#waiting.splice(0, told.length);
    await inSlices(told, ({ kind, details }, i) => {
      if (first[i]) this.#sources.log.info(kind, details);
    });
    return unanswered < 0;
  }

  #isFirst({ kind, marker, seenMs }: SeenEvent): Promise<boolean> {
    const { quotas } = this.#sources;
    const isState = kind === "account_changed" || kind === "caps_added";
    if (!isState) return quotas.markFirst(marker, KEY_MARKER_MS);
    const change = { ageMs: performance.now() - seenMs, sameMs: SAME_STATE_MS };
    return quotas.markFirst(marker, STATE_MARKER_MS, change);
  }
}

/**
 * Records that the store has lost, since no command deletes one. They may come back by themselves,
 * and a key that does is not issued again.
 */
class GoneRecords<T extends KeyRecord | AccountRecord> {
  readonly #gone = new Map<string, T>();

  /** The changes between the two. A record that came back has the one that was lost before it. */
  async changes(
    before: readonly T[],
    after: readonly T[],
  ): Promise<readonly RecordTransition<T>[]> {
    const changed = await findChangedRecords(before, after);
    const added = changed.filter(([was]) => was === undefined).length;
    const pairs = this.#gone.size === 0 ? changed : changed.map((pair) => this.#withGone(pair));
    if (before.length + added > after.length) await this.#keepGone(before, after);
    return pairs;
  }

  /** A record that an import brings back is counted with its other records. */
  #withGone([was, is]: RecordTransition<T>): RecordTransition<T> {
    const gone = this.#gone.get(is.id);
    this.#gone.delete(is.id);
    return gone !== undefined && gone.importId === is.importId ? [gone, is] : [was, is];
  }

  async #keepGone(before: readonly T[], after: readonly T[]): Promise<void> {
    const present = new Set(after.map(({ id }) => id));
    await inSlices(before, (record) => {
      if (!present.has(record.id)) this.#gone.set(record.id, record);
    });
  }
}

type RecordChanges = {
  readonly keys: readonly RecordTransition<KeyRecord>[];
  readonly accounts: readonly RecordTransition<AccountRecord>[];
};

/** Calls `take` with the events of all changes, keys first, in their order, imports last. */
async function eachNews(
  { keys, accounts }: RecordChanges,
  after: Records,
  take: (event: RecordEvent) => void,
): Promise<void> {
  const imports = new ImportEvents();
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
  await inSlices((await differingIndexes(before, after)) ?? [], (i) => {
    const [was, is] = [before[i], after[i]];
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
