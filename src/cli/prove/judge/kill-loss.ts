import type { SentRequest } from "../trial/promises.ts";
import { METER, OPERATIONS } from "../trial/workload.ts";

/** Longer than all outages of a proof together. */
const REMEMBERED_MS = 120_000;

type AdmittedRequest = {
  readonly origin: string;
  readonly account: string;
  readonly operation: keyof typeof OPERATIONS;
  readonly endedMs: number;
};

/** The instants since which a killed gateway may have left something undone, in Unix milliseconds. */
export type KillInstants = {
  /** All that it admitted before this is charged. */
  readonly chargesMs: number;
  /** All meters of requests that ended before this are settled. */
  readonly settlementsMs: number;
};

/**
 * Tells the most that a gateway may leave undone when it is killed: it loses what it admitted without
 * the store and had not charged yet (docs/reference/store.md#lost-charges), and no unit of anything earlier,
 * of another gateway or of a refusal.
 */
export class KillLoss {
  readonly #admitted: AdmittedRequest[] = [];
  #killed: (KillInstants & { readonly origin: string }) | undefined;

  /** Called with each request of the load, also after the kill: a response may arrive later. */
  take({ origin, account, operation, endedMs, response }: SentRequest): void {
    if (response?.status !== 200) return;
    const forgottenMs = endedMs - REMEMBERED_MS;
    while ((this.#admitted[0]?.endedMs ?? endedMs) < forgottenMs) this.#admitted.shift();
    this.#admitted.push({ origin, account, operation: operation as never, endedMs });
  }

  /** Called when the gateway at `origin` is killed. */
  kill(origin: string, since: KillInstants): void {
    this.#killed = { origin, ...since };
  }

  /** The most units of the account that were not charged. */
  unitsOf(account: string): number {
    const since = this.#of(account, this.#killed?.chargesMs);
    return since.reduce((sum, { operation }) => sum + OPERATIONS[operation].cost, 0);
  }

  /** The most requests of the account whose meters were not settled. */
  unsettledOf(account: string): number {
    const since = this.#of(account, this.#killed?.settlementsMs);
    return since.filter(({ operation }) => operation === METER.operation).length;
  }

  #of(account: string, sinceMs = Number.POSITIVE_INFINITY): readonly AdmittedRequest[] {
    return this.#admitted.filter((one) => {
      return (
        one.account === account && one.origin === this.#killed?.origin && one.endedMs >= sinceMs
      );
    });
  }
}
