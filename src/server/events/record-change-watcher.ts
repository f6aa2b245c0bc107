import { setImmediate as breathe, setTimeout as pause } from "node:timers/promises";
import {
  accountEvent,
  type BeforeAfter,
  keyEvent,
  type RecordEvent,
} from "../../core/keys/record-events.ts";
import { findById } from "../../core/keys/record-index.ts";
import type { Records } from "../../core/keys/records.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import type { QuotaAdmin } from "../../stores/quotas/quota-store.ts";
import type { Log } from "../../telemetry/log/log.ts";

/** Records compared before requests have their turn: a few milliseconds. */
const AT_ONCE = 2_000;
/** Markers that are set together. */
const MARKS_AT_ONCE = 64;
/** News that wait for a store that is away. */
const WAITING_MAX = 10_000;
const AGAIN_MS = 1_000;

/** A key is issued, rotated and revoked once. */
const KEY_MARKER_MS = 24 * 3_600_000;
/**
 * An account may be changed to and fro: a gateway sees each change within a second, and a change
 * back to an earlier state is another one for all that come later than this.
 */
const ACCOUNT_MARKER_MS = 15_000;

type RecordChangeSources = {
  readonly keys: Pick<KeyStore, "records" | "ready" | "onChange">;
  readonly quotas: Pick<QuotaAdmin, "markFirst">;
  readonly log: Log;
};

/**
 * Tells which keys and accounts have changed, by any writer: the records themselves say
 * so. Each change is told by the gateway that sets its marker first, so once over all of them
 * (docs/reference/events.md#kinds). The changes from before its start are none of its business.
 */
export class RecordChangeWatcher {
  readonly #seen: RecordChangeSources;
  #records: Records | undefined;
  #waiting: RecordEvent[] = [];
  #comparing: Promise<void> = Promise.resolve();
  #telling = false;
  #stopped = false;
  #dropped = 0;

  constructor(seen: RecordChangeSources) {
    this.#seen = seen;
    const { keys } = seen;
    if (keys.ready) this.#records = keys.records();
    keys.onChange(() => {
      this.#comparing = this.#comparing.then(() => this.#compare());
    });
  }

  /** News that were thrown away: too many waited. */
  get dropped(): number {
    return this.#dropped;
  }

  stop(): void {
    this.#stopped = true;
  }

  async #compare(): Promise<void> {
    const before = this.#records;
    const after = this.#seen.keys.records();
    this.#records = after;
    if (before === undefined || this.#stopped) return;
    for await (const news of newsIn(before, after)) this.#take(news);
    if (!this.#telling) void this.#tell();
  }

  #take(news: RecordEvent): void {
    if (this.#waiting.length < WAITING_MAX) this.#waiting.push(news);
    else this.#dropped += 1;
  }

  async #tell(): Promise<void> {
    this.#telling = true;
    while (this.#waiting.length > 0 && !this.#stopped) {
      const some = this.#waiting.slice(0, MARKS_AT_ONCE);
      try {
        const first = await Promise.all(some.map((news) => this.#isFirst(news)));
        this.#waiting.splice(0, some.length);
        for (const [i, { kind, details }] of some.entries()) {
          if (first[i]) this.#seen.log.info(kind, details);
        }
      } catch {
        // The store is unreachable: the gateway that sets the marker afterwards tells them.
        await pause(AGAIN_MS, undefined, { ref: false });
      }
    }
    this.#telling = false;
  }

  #isFirst({ kind, marker }: RecordEvent): Promise<boolean> {
    const lifeMs = kind === "account_changed" ? ACCOUNT_MARKER_MS : KEY_MARKER_MS;
    return this.#seen.quotas.markFirst(marker, lifeMs);
  }
}

/** All that is new in the records, keys first, in their order. */
async function* newsIn(before: Records, after: Records): AsyncGenerator<RecordEvent> {
  const keys = await findChangedRecords(before.keys, after.keys);
  const successors = new Set(keys.map(([, { replacedBy }]) => replacedBy));
  for (const [i, pair] of keys.entries()) {
    if (i % AT_ONCE === AT_ONCE - 1) await breathe();
    const [was, { id, account }] = pair;
    // A new key is told with its plan, and each is looked for: in 100,000 accounts by their index.
    const plan = was === undefined ? findById(after.accounts, account)?.plan : undefined;
    const about = { plan: plan ?? "", isSuccessor: successors.has(id) };
    const news = keyEvent(pair, about);
    if (news !== undefined) yield news;
  }
  const accounts = await findChangedRecords(before.accounts, after.accounts);
  for (const [i, pair] of accounts.entries()) {
    if (i % AT_ONCE === AT_ONCE - 1) await breathe();
    const news = accountEvent(pair);
    if (news !== undefined) yield news;
  }
}

/**
 * The records that are new or another object than before, each with the one that it replaces, in
 * pieces: if another process has written a file, all of its records are other objects.
 */
export async function findChangedRecords<T extends { readonly id: string }>(
  before: readonly T[],
  after: readonly T[],
): Promise<readonly BeforeAfter<T>[]> {
  const old = new Map<string, T>();
  const changed: T[] = [];
  for (let i = 0; i < Math.max(before.length, after.length); i++) {
    if (i % AT_ONCE === AT_ONCE - 1) await breathe();
    const [was, is] = [before[i], after[i]];
    if (was === is) continue;
    if (was !== undefined) old.set(was.id, was);
    if (is !== undefined) changed.push(is);
  }
  const pairs: BeforeAfter<T>[] = [];
  for (const [i, is] of changed.entries()) {
    if (i % AT_ONCE === AT_ONCE - 1) await breathe();
    const was = old.get(is.id);
    if (was !== is) pairs.push([was, is]);
  }
  return pairs;
}
