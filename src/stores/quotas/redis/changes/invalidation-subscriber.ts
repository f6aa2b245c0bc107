import { setTimeout as sleep, setImmediate as turn } from "node:timers/promises";
import { type TellDenied, tellingDenied, tellingRefused } from "../../../redis/denied-rights.ts";
import { type StoreFailure, toStoreFailure, withTimeout } from "../../../redis/store-failure.ts";
import type { WindowTotal } from "../../count-corrections.ts";
import type { QuotaClient } from "../quota-client.ts";
import {
  type BanChange,
  PENDING,
  parseNews,
  type ToldBan,
  type ToldReset,
} from "./invalidation-message.ts";
import type { InvalidationChannel } from "./invalidation-publisher.ts";
import { MessageLog } from "./message-log.ts";

export type InvalidationSubscriberOptions = {
  readonly quotaClient: QuotaClient;
  /**
   * Drops the cached decisions of the accounts that a message names; without ids, those of all.
   * `toldBans` are their bans, as far as the message carries them.
   */
  readonly invalidate: (
    ids: readonly string[] | undefined,
    banChange?: BanChange,
    toldBans?: readonly ToldBan[],
  ) => void;
  /** Called with a reset of meters that another gateway or a command made. */
  readonly reset: (toldReset: ToldReset) => void;
  /** Called when a message was missed, whose content is unknown. */
  readonly distrust: () => void;
  /** Called with counts that another gateway received at `nowMs` of the store's clock. */
  readonly learn: (id: string, totals: readonly WindowTotal[], nowMs: number) => void;
  /**
   * Called when changes made by commands may wait in the store for one gateway to report. `isUntold`:
   * no message has told of them.
   */
  readonly pending: (isUntold?: boolean) => void;
  /** Called once a second with the result of a probe: undefined if the store replied. */
  readonly probed: (failure: StoreFailure | undefined) => void;
  readonly tellDenied: TellDenied;
};

/** Together a second: a number is read at intervals, and its message comes by another connection. */
const POLL_MS = 900;
const ON_ITS_WAY_MS = 100;
const POLL_LATE_MS = 1_000;
/** Changes whose message could not be sent are looked for each time after so many polls. */
const UNTOLD_POLLS = 5;

/**
 * Receives the messages of other gateways. Reads the number of the last one once a second. A gateway
 * that missed a message (no subscription, or one that hangs) drops every cached decision and subscribes
 * again. A store that is back with a smaller number keeps them, but for those of the accounts that it
 * has named meanwhile.
 */
export class InvalidationSubscriber {
  readonly #options: InvalidationSubscriberOptions;
  readonly #channel: InvalidationChannel;
  readonly #subscription: { restart(): void };
  readonly #log: MessageLog;
  #seen: number | undefined;
  /** Whether messages may have been missed whose numbers tell nothing of it. */
  #isUnsure = false;
  #missed: number | undefined;
  #polls = 0;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(options: InvalidationSubscriberOptions, channel: InvalidationChannel) {
    const { quotaClient, tellDenied } = options;
    const { link } = quotaClient;
    this.#options = options;
    this.#channel = channel;
    this.#log = new MessageLog(link, channel.logKey, tellDenied);
    const up = () => {
      this.#isUnsure = true;
      void this.#poll();
    };
    const heard = { message: (text: string) => this.#hear(text), up };
    const { name } = channel;
    this.#subscription = link.subscribe(name, tellingRefused(tellDenied, name, heard));
    void link.tried.then(() => this.#poll()).finally(() => this.#pollLater());
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #isOwn(name: string): boolean {
    return name.split(".", 1)[0] === this.#channel.origin;
  }

  #hear(text: string): void {
    const [number, name = "", ...ids] = text.split(" ");
    const version = Number(number);
    if (!Number.isSafeInteger(version) || ids.length === 0) return;
    this.#log.know(name);
    const isOwn = this.#isOwn(name);
    // A gap means that a message was missed, and its content is unknown.
    const gap = this.#seen !== undefined && version > this.#seen + 1;
    // A smaller number comes from a store that counts from the beginning again.
    this.#seen = version;
    if (this.#missed !== undefined && version >= this.#missed) this.#missed = undefined;
    if (gap || ids.includes(PENDING)) this.#options.pending();
    const isOfAll = ids[0] === "*";
    if (gap) this.#options.distrust();
    if (isOfAll && !isOwn) this.#options.invalidate(undefined);
    if (!isOfAll && !isOwn) this.#hearOf(ids);
  }

  #hearOf(words: readonly string[]): void {
    const { changed, banChange, toldBans, toldResets, counts } = parseNews(words);
    for (const toldReset of toldResets) this.#options.reset(toldReset);
    if (changed.length > 0) this.#options.invalidate(changed, banChange, toldBans);
    for (const { id, totals, nowMs } of counts) this.#options.learn(id, totals, nowMs);
  }

  async #poll(): Promise<void> {
    const { versionKey } = this.#channel;
    const { quotaClient, tellDenied } = this.#options;
    try {
      const before = this.#seen;
      const reply = quotaClient.link.send(versionKey, "get", [versionKey]);
      const answer = withTimeout(reply, POLL_LATE_MS);
      const text = await tellingDenied(tellDenied, `GET ${versionKey}`, answer);
      // A value that is no number is damage: the next message begins with 1 again.
      const version = Number.isSafeInteger(Number(text)) ? Number(text) : 0;
      if (this.#missed !== undefined) this.#subscription.restart();
      this.#missed = undefined;
      this.#options.probed(undefined);
      let isOwnNews = false;
      if (before !== undefined && version > before) {
        await this.#hearUntil(() => version <= (this.#seen as number));
        isOwnNews = await this.#areOwn(this.#seen as number, version);
      }
      const seen = this.#seen;
      if (seen === undefined || version > seen) this.#options.pending();
      if (seen !== undefined && version > seen) {
        this.#missed = version;
        if (!isOwnNews) this.#options.distrust();
      }
      // A smaller number comes from a store that was emptied, unless messages arrived
      // during the call.
      if (seen === before || version > (seen as number)) this.#seen = version;
      const isKnown = before === undefined || seen === undefined || version > seen;
      if (isKnown || this.#isUnsure || version < before) await this.#compare(version, isKnown);
      if (++this.#polls % UNTOLD_POLLS === 0) this.#options.pending(true);
    } catch (error) {
      this.#options.probed(toStoreFailure(error));
    }
  }

  /**
   * Drops the cached decisions of the accounts that messages up to this number name, if they were
   * missed. If `isKnown`, nothing is cached from before them.
   */
  async #compare(version: number, isKnown: boolean): Promise<void> {
    this.#isUnsure = false;
    const logged = await this.#log.read(version);
    if (logged === undefined) {
      this.#isUnsure = true;
      return;
    }
    // One that this gateway sent again, to a store that had lost it, is no news to it.
    for (const { name } of logged) if (this.#isOwn(name)) this.#log.know(name);
    if (!isKnown) await this.#hearUntil(() => this.#log.missed(logged).length === 0);
    const missed = isKnown ? [] : this.#log.missed(logged);
    for (const { name } of logged) this.#log.know(name);
    if (missed.length === 0) return;
    this.#options.pending();
    if (missed.some((ids) => ids.includes("*"))) this.#options.distrust();
    else for (const ids of missed) this.#hearOf(ids);
  }

  /**
   * Whether this gateway sent all messages after a number: it knows what they say, although its
   * subscription does not bring them, as after a failover of the store.
   */
  async #areOwn(after: number, last: number): Promise<boolean> {
    if (last <= after) return false;
    const logged = (await this.#log.read(last))?.filter(({ number }) => number > after) ?? [];
    return logged.length === last - after && logged.every(({ name }) => this.#isOwn(name));
  }

  /**
   * Waits for messages that are on their way. Dropping every cached decision for them would also drop
   * the bans that a failover of the store has lost.
   */
  async #hearUntil(isHeard: () => boolean): Promise<void> {
    const endMs = performance.now() + ON_ITS_WAY_MS;
    while (performance.now() < endMs && !isHeard()) {
      await sleep(10, undefined, { ref: false });
    }
    // Messages that arrived while this process stood still are read first.
    if (!isHeard()) await turn();
  }

  #pollLater(): void {
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      void this.#poll().finally(() => this.#pollLater());
    }, POLL_MS).unref();
  }
}
