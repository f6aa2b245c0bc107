import { type TellDenied, tellingDenied } from "../../redis/denied-rights.ts";
import type { StoreFailure } from "../../redis/store-failure.ts";
import { type AccountRef, accountId, parseAccountId } from "../account-ref.ts";
import type { DecisionCache } from "../batch/decision-cache.ts";
import type { WindowTotal } from "../outage-handler.ts";
import type { AdminEvent } from "../quota-store.ts";
import { createInvalidations, type Invalidations } from "./invalidations.ts";
import { PendingEvents } from "./pending-events.ts";
import type { QuotaClient } from "./quota-client.ts";

/**
 * The bucket that has the number of the last invalidation, and the changes that wait to be
 * reported.
 */
export const EVENTS_BUCKET = 0;

export type AccountChangesOptions = {
  readonly quotaClient: QuotaClient;
  readonly prefix: string;
  readonly decisionCache: DecisionCache;
  /** Called with the changes that commands made. */
  readonly onAdminEvent?: ((event: AdminEvent) => void) | undefined;
  /** See RedisQuotaStoreOptions. */
  readonly logsOwnChanges?: boolean | undefined;
  /** See InvalidationsOptions. */
  readonly probed: (failure: StoreFailure | undefined) => void;
  readonly tellDenied: TellDenied;
};

/** Tells all gateways about changes of accounts, and this one about those of the others. */
export class AccountChanges {
  readonly #options: AccountChangesOptions;
  readonly #invalidations: Invalidations;
  readonly #pending: PendingEvents;

  constructor(options: AccountChangesOptions) {
    const { quotaClient, prefix, decisionCache, probed, tellDenied } = options;
    this.#options = options;
    this.#pending = new PendingEvents(quotaClient, prefix);
    this.#invalidations = createInvalidations({
      quotaClient,
      prefix,
      learn: (id, totals, nowMs) => decisionCache.learnCounts(parseAccountId(id), totals, nowMs),
      invalidate: (id) =>
        decisionCache.invalidate(id === undefined ? undefined : parseAccountId(id)),
      pending: () => this.#tellPending(),
      probed,
      tellDenied,
    });
  }

  /**
   * Makes every gateway drop its cached decisions of the account. One gateway reports a command's
   * change. Rejects with StoreFailure.
   */
  async tellEverywhere(event: AdminEvent): Promise<void> {
    const { accountRef } = event;
    const {
      decisionCache,
      onAdminEvent,
      logsOwnChanges = onAdminEvent !== undefined,
    } = this.#options;
    decisionCache.invalidate(accountRef);
    if (logsOwnChanges) {
      await this.#invalidations.publish(accountId(accountRef));
    } else {
      await this.#pending.keep(event);
      await this.#invalidations.publishPending(accountId(accountRef));
    }
  }

  /** Makes every gateway drop its cached decisions of the accounts. Rejects with StoreFailure. */
  async invalidateEverywhere(accountRefs: readonly AccountRef[]): Promise<void> {
    for (const accountRef of accountRefs) this.#options.decisionCache.invalidate(accountRef);
    await this.#invalidations.publishAll(accountRefs.map(accountId));
  }

  /** See Invalidations.publishSoon. */
  tellSoon(accountRef: AccountRef): void {
    this.#invalidations.publishSoon(accountId(accountRef));
  }

  /** See Invalidations.tellCounts. */
  tellCounts(accountRef: AccountRef, totals: readonly WindowTotal[], nowMs: number): void {
    this.#invalidations.tellCounts(accountId(accountRef), totals, nowMs);
  }

  close(): void {
    this.#invalidations.close();
  }

  /** Reports the changes that wait in the store. If they cannot be read now, they keep waiting. */
  #tellPending(): void {
    const { onAdminEvent, prefix, tellDenied } = this.#options;
    if (onAdminEvent === undefined) return;
    const tell = (events: readonly AdminEvent[]) => events.forEach(onAdminEvent);
    const what = `DEL ${prefix}:{${EVENTS_BUCKET}}:resets`;
    tellingDenied(tellDenied, what, this.#pending.take()).then(tell, () => undefined);
  }
}
