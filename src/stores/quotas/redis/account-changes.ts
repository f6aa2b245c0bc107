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
  readonly shared: QuotaClient;
  readonly prefix: string;
  readonly answers: DecisionCache;
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
  readonly #events: Invalidations;
  readonly #pending: PendingEvents;

  constructor(options: AccountChangesOptions) {
    const { shared, prefix, answers, probed, tellDenied } = options;
    this.#options = options;
    this.#pending = new PendingEvents(shared, prefix);
    this.#events = createInvalidations({
      shared,
      prefix,
      learn: (id, totals, nowMs) => answers.learnCounts(parseAccountId(id), totals, nowMs),
      forget: (id) => answers.invalidate(id === undefined ? undefined : parseAccountId(id)),
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
    const { name } = event;
    const { answers, onAdminEvent, logsOwnChanges = onAdminEvent !== undefined } = this.#options;
    answers.invalidate(name);
    if (logsOwnChanges) {
      await this.#events.publish(accountId(name));
    } else {
      await this.#pending.keep(event);
      await this.#events.publishPending(accountId(name));
    }
  }

  /** Makes every gateway drop its cached decisions of the accounts. Rejects with StoreFailure. */
  async invalidateEverywhere(names: readonly AccountRef[]): Promise<void> {
    for (const name of names) this.#options.answers.invalidate(name);
    await this.#events.publishAll(names.map(accountId));
  }

  /** See Invalidations.publishSoon. */
  tellSoon(name: AccountRef): void {
    this.#events.publishSoon(accountId(name));
  }

  /** See Invalidations.tellCounts. */
  tellCounts(name: AccountRef, totals: readonly WindowTotal[], nowMs: number): void {
    this.#events.tellCounts(accountId(name), totals, nowMs);
  }

  close(): void {
    this.#events.close();
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
