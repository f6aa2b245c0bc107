import type { Limit } from "../../../core/quota/windows.ts";
import type { StoreFailure } from "../../redis/store-failure.ts";
import type { OutageHandler } from "../outage-handler.ts";
import type { StoreUnavailable } from "../quota-store.ts";
import type { QuotaClient } from "./quota-client.ts";

const PATIENCE_MS = 50;

/** Decides nothing without the store, as under `onStoreFailure: deny`, and asks it every time. */
export class DenyDuringOutage implements OutageHandler {
  readonly patienceMs: number;
  readonly shares = false;
  readonly #shared: QuotaClient;

  constructor(shared: QuotaClient, patienceMs = PATIENCE_MS) {
    this.#shared = shared;
    this.patienceMs = patienceMs;
  }

  isAway(): boolean {
    return false;
  }

  prepare(queue: number): Promise<void> | undefined {
    return this.#shared.isTimed(queue)
      ? undefined
      : this.#shared.learnClock(queue, this.patienceMs);
  }

  limitsFor(_queue: number, _name: unknown, limits: readonly Limit[]): readonly Limit[] {
    return limits;
  }

  decide(): StoreUnavailable {
    return { unavailable: true };
  }

  called(_queue: number, _failure: StoreFailure | undefined): void {}

  /** Nothing is owed here. */
  gaveUp(): void {}

  /** The requests were refused, and the store has charged them. */
  ranLate(_name: unknown, _verdict: unknown, units: number): number {
    return units;
  }

  reconfigure(): void {}

  lostUnits(): number {
    return 0;
  }

  health(): undefined {
    return undefined;
  }

  async close(): Promise<void> {}
}
