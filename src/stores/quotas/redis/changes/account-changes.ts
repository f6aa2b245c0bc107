import type { Ban } from "../../../../core/quota/bans.ts";
import { type TellDenied, tellingDenied } from "../../../redis/denied-rights.ts";
import { type StoreFailure, toStoreFailure } from "../../../redis/store-failure.ts";
import { type AccountRef, accountId, bucketOf, parseAccountId } from "../../account-ref.ts";
import { type AdminEvent, type HeardReset, heardReset } from "../../admin-changes.ts";
import { type DecisionCache, isInvalidated } from "../../batch/decision-cache.ts";
import type { WindowTotal } from "../../count-corrections.ts";
import type { QuotaClient } from "../quota-client.ts";
import { parseBan } from "../stored-bans.ts";
import {
  type BanChange,
  banChangeOf,
  type ToldBan,
  type ToldReset,
} from "./invalidation-message.ts";
import {
  createInvalidationChannel,
  InvalidationPublisher,
  type ToldChange,
} from "./invalidation-publisher.ts";
import {
  InvalidationSubscriber,
  type InvalidationSubscriberOptions,
} from "./invalidation-subscriber.ts";
import { PendingEvents, type TakenEvents } from "./pending-events.ts";
import { type RecentBan, ToldBans } from "./told-bans.ts";

export type AccountChangesOptions = {
  readonly quotaClient: QuotaClient;
  readonly decisionCache: DecisionCache;
  /** Called with the changes that commands made. */
  readonly onAdminEvent?: ((event: AdminEvent) => void) | undefined;
  /** Called with the number of changes of commands that no log has, because too many waited. */
  readonly onDropped: (count: number) => void;
  /** See RedisQuotaStoreOptions, as the next two. */
  readonly onReset?: ((reset: HeardReset) => void) | undefined;
  readonly logsOwnChanges?: boolean | undefined;
  readonly onOwnChange?: ((event: AdminEvent) => void) | undefined;
  /** See InvalidationSubscriberOptions. */
  readonly probed: (failure: StoreFailure | undefined) => void;
  readonly tellDenied: TellDenied;
};

/** Tells all gateways about changes of accounts, and this one about those of the others. */
export class AccountChanges {
  readonly #options: AccountChangesOptions;
  readonly #publisher: InvalidationPublisher;
  readonly #subscriber: InvalidationSubscriber;
  readonly #pending: PendingEvents;
  readonly #toldBans = new ToldBans();

  constructor(options: AccountChangesOptions) {
    const { quotaClient, decisionCache, probed, tellDenied } = options;
    this.#options = options;
    this.#pending = new PendingEvents(quotaClient);
    const channel = createInvalidationChannel(quotaClient.prefix);
    this.#publisher = new InvalidationPublisher(quotaClient, tellDenied, channel);
    const heard: InvalidationSubscriberOptions = {
      quotaClient,
      learn: (id, totals, nowMs) => decisionCache.learnCounts(parseAccountId(id), totals, nowMs),
      invalidate: (ids, banChange, toldBans) => {
        if (ids !== undefined) void this.#forget(ids.map(parseAccountId), banChange, toldBans);
        else {
          decisionCache.invalidate();
          this.#toldBans.forget();
        }
      },
      reset: (toldReset) => this.#hearReset(toldReset),
      distrust: () => {
        decisionCache.distrust();
        this.#toldBans.forget();
      },
      pending: (isUntold) => this.#tellPending(isUntold),
      probed,
      tellDenied,
    };
    this.#subscriber = new InvalidationSubscriber(heard, channel);
  }

  /**
   * Makes every gateway drop its cached decisions of the account. One gateway reports a command's
   * change. Rejects with StoreFailure; in this case a change that waits in the store, or that this
   * process logs by itself, is told again later.
   */
  async tellEverywhere(event: AdminEvent): Promise<void> {
    const id = accountId(event.accountRef);
    const { onAdminEvent, logsOwnChanges = onAdminEvent !== undefined } = this.#options;
    const told = toldOf(event);
    const forgotten = this.#hearOwn(event);
    const kept = logsOwnChanges ? undefined : this.#pending.keep(event);
    const unkept = await kept?.catch(toStoreFailure);
    const published = this.#publisher.publish(id, { told, isPending: !logsOwnChanges });
    const unpublished = await published.catch(toStoreFailure);
    if (unpublished && logsOwnChanges) this.#publisher.publishSoon(id, told);
    await forgotten;
    const failure = unpublished ?? unkept;
    if (failure) throw failure;
  }

  /**
   * Makes every gateway drop its cached decisions of the account, but no ban. Rejects with
   * StoreFailure.
   */
  async invalidateEverywhere(accountRef: AccountRef): Promise<void> {
    void this.#hearOwn({ accountRef, atMs: this.#latestNow(accountRef), windows: [] });
    await this.#publisher.publish(accountId(accountRef));
  }

  /**
   * Makes every gateway drop the ban that it may know of an account that has none in the store at
   * `atMs` of its clock. Rejects with StoreFailure.
   */
  async liftEverywhere(accountRef: AccountRef, atMs: number): Promise<void> {
    const lift: AdminEvent = { accountRef, atMs, imposed: undefined };
    void this.#hearOwn(lift);
    await this.#publisher.publish(accountId(accountRef), { told: toldOf(lift) });
  }

  /** See InvalidationPublisher.publishSoon. */
  tellBanSoon(accountRef: AccountRef, atMs: number, ban: Ban): void {
    const id = accountId(accountRef);
    this.#publisher.publishSoon(id, { id, atMs, ban });
  }

  /** See InvalidationPublisher.tellCounts. */
  tellCounts(accountRef: AccountRef, totals: readonly WindowTotal[], nowMs: number): void {
    this.#publisher.tellCounts(accountId(accountRef), totals, nowMs);
  }

  close(): void {
    this.#subscriber.close();
    this.#publisher.close();
  }

  /**
   * Drops the cached decisions of the accounts, but no count that still holds, and no ban that stays,
   * which the store may not have. The bans that may have changed are read again, because a known ban
   * holds while the store is unreachable, whether or not its account has asked since. A ban that a
   * message carries is kept only if it cannot be read, because the message of an earlier change may
   * arrive after that of a later one.
   */
  async #forget(
    accountRefs: readonly AccountRef[],
    banChange?: BanChange,
    toldBans: readonly ToldBan[] = [],
  ): Promise<void> {
    const { decisionCache } = this.#options;
    if (banChange === "kept") {
      for (const accountRef of accountRefs) decisionCache.keepBan(accountRef);
      return;
    }
    const told = new Set(toldBans.map(({ id }) => id));
    for (const one of toldBans) this.#toldBans.hear(one);
    for (const accountRef of accountRefs) {
      const id = accountId(accountRef);
      // An earlier version may have lifted its ban, and does not say when.
      const atMs = this.#latestNow(accountRef);
      if (!told.has(id)) this.#toldBans.hear({ id, atMs, ban: undefined });
    }
    const mayBeBanned = accountRefs.filter((accountRef) => {
      const hadBan = decisionCache.lastKnown(accountRef)?.ban !== undefined;
      if (banChange === undefined) decisionCache.invalidate(accountRef);
      else decisionCache.keepCounts(accountRef);
      return banChange === "banned" || hadBan;
    });
    if (mayBeBanned.length > 0) await this.#learnBans(mayBeBanned);
  }

  /** One call stands for all accounts, because a change is noted at each call under way. */
  async #learnBans(accountRefs: readonly AccountRef[]): Promise<void> {
    const { decisionCache } = this.#options;
    const call = decisionCache.beginCall();
    const learned = accountRefs.map(async (accountRef) => {
      const read = await this.#readBan(accountRef).catch(() =>
        this.#toldBans.recent(accountId(accountRef), this.#latestNow(accountRef)),
      );
      // It changed meanwhile, so that its ban may be another one.
      if (isInvalidated(call, accountId(accountRef))) return this.#learnBans([accountRef]);
      if (read !== undefined)
        decisionCache.learnBan(accountRef, read.ban, read.atMs, read.toldMsAgo);
    });
    // The next request of an account whose ban is unknown asks the store.
    await Promise.allSettled(learned);
    decisionCache.endCall(call);
  }

  /** Hears of a change that this gateway tells the others. */
  #hearOwn(event: AdminEvent): Promise<void> {
    this.#options.onOwnChange?.(event);
    return this.hear(event);
  }

  /** Hears of a change that another process tells all gateways. */
  hear(event: AdminEvent): Promise<void> {
    const { accountRef } = event;
    const told = toldOf(event);
    if (told !== undefined && "ban" in told) {
      return this.#forget([accountRef], banChangeOf(told), [told]);
    }
    if (told !== undefined) this.#hearReset(told);
    return this.#forget([accountRef], "kept");
  }

  #hearReset({ id, ...reset }: ToldReset): void {
    this.#options.onReset?.({ accountRef: parseAccountId(id), ...reset });
  }

  #latestNow(accountRef: AccountRef): number {
    return this.#options.quotaClient.clockOf(bucketOf(accountRef)).latestNow();
  }

  async #readBan(accountRef: AccountRef): Promise<RecentBan | undefined> {
    const { ask, keyOf } = this.#options.quotaClient;
    const text = await ask("hget", keyOf(accountRef), ["b"]);
    const ban = typeof text === "string" ? parseBan(text) : undefined;
    return ban && { ban, atMs: this.#latestNow(accountRef) };
  }

  /**
   * Reports the changes that wait in the store. If they cannot be read now, they keep waiting. If no
   * message has told of them, this gateway tells the others until the store takes the message.
   */
  #tellPending(isUntold = false): void {
    const { onAdminEvent, onDropped, tellDenied } = this.#options;
    if (onAdminEvent === undefined) return;
    const tell = ({ events, dropped }: TakenEvents) => {
      if (dropped > 0) onDropped(dropped);
      for (const event of events) {
        if (isUntold) {
          void this.#hearOwn(event);
          this.#publisher.publishSoon(accountId(event.accountRef), toldOf(event));
        }
        onAdminEvent(event);
      }
    };
    const what = `HGETALL or to DEL ${this.#pending.key}`;
    tellingDenied(tellDenied, what, this.#pending.take()).then(tell, () => undefined);
  }
}

/** Returns the details that messages tell of a change: a reset without a window of a meter has none. */
function toldOf(event: AdminEvent): ToldChange | undefined {
  const id = accountId(event.accountRef);
  if ("windows" in event) {
    const reset = heardReset(event);
    return reset && { id, atMs: reset.atMs, counters: reset.counters };
  }
  const { atMs, imposed } = event;
  if (imposed === undefined) return { id, atMs, ban: undefined };
  const { untilMs, window, offences } = imposed;
  return { id, atMs, ban: { untilMs, lengthMs: untilMs - atMs, window, offences } };
}
