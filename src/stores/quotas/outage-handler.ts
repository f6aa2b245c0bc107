import type { QuotaDecision, QuotaRequest } from "../../core/quota/decide.ts";
import type { Holds, MeterChange } from "../../core/quota/meters.ts";
import type { Limit } from "../../core/quota/windows.ts";
import type { StoreFailure } from "../redis/store-failure.ts";
import type { AccountRef } from "./account-ref.ts";
import type {
  AccountRequest,
  ChargeResult,
  FailurePolicy,
  LastKnownOptions,
  StoreUnavailable,
} from "./quota-store.ts";

/**
 * Decides requests while the store is unreachable (docs/reference/store.md#away). A queue is the unit
 * that can fail on its own: one bucket on a Cluster, otherwise the whole store.
 */
export interface OutageHandler {
  /** How long a call may take before its requests are decided without it, in milliseconds. */
  readonly timeoutMs: number;
  /**
   * Whether requests without an answer are admitted from a share of their limits. If so, no other
   * call of the queue that is in flight may admit requests too.
   */
  readonly admitsShares: boolean;
  /** Whether the store is known to be unreachable: no request of this queue goes out. */
  isAway(queue: number): boolean;
  /**
   * Work that precedes the next call of the queue: the clock is read and debts are charged, so that
   * the call is decided with all of them counted. Undefined, as nearly always, if there is none.
   * Rejects with StoreFailure.
   */
  prepare(queue: number): Promise<void> | undefined;
  /**
   * Units of each limit that the store keeps back, because other gateways may have admitted
   * requests that they have not charged yet, in an outage that is over for this gateway. Undefined,
   * as nearly always, if there are none.
   */
  reservedFor(
    queue: number,
    accountRef: AccountRef,
    limits: readonly Limit[],
  ): readonly number[] | undefined;
  /** Settles what a request used of its meters, ahead of each later charge. */
  settle(
    accountRef: AccountRef,
    holds: Pick<Holds, "id" | "plan" | "decidedMs">,
    changes: readonly MeterChange[],
  ): void;
  /** Decides one request without the store. */
  decide(accountRef: AccountRef, quotaRequest: QuotaRequest): ChargeResult | StoreUnavailable;
  /** Called when a call of a queue ends. `failure` is undefined if the store replied. */
  onCallEnd(queue: number, failure: StoreFailure | undefined): void;
  /**
   * Called when a call of the queue has taken too long. `answered` settles when its reply has
   * arrived and `onLateDecision` was called, or when the reply is known to be lost. It does not
   * reject.
   */
  onCallTimeout(queue: number, answered: Promise<void>): void;
  /** Called with a late decision: its requests were decided without it. */
  onLateDecision(request: AccountRequest, decision: QuotaDecision): void;
  /** The refusal from memory, in which units that the account owes to the store count as well. */
  withOwed(accountRef: AccountRef, refused: ChargeResult): ChargeResult;
  /**
   * The last known state of an account of which the store told `known`. In an outage it is what a
   * request that costs nothing would be told now, unless the account was read.
   */
  lastKnown(
    accountRef: AccountRef,
    limits: readonly Limit[],
    known: QuotaDecision | undefined,
    options: LastKnownOptions,
  ): QuotaDecision | undefined;
  /** Keeps what the store told of an account that was read, as its last known state. */
  onReading(accountRef: AccountRef, decision: QuotaDecision): void;
  /** The parts of the configuration that a reload may change. */
  reconfigure(policy: FailurePolicy): void;
  /** Units that were admitted without the store and will never be charged. */
  lostUnits(): number;
  /** Units that were admitted without the store and are not charged yet. */
  owedUnits(): number;
  /** Why the store is unreachable, for /readyz; undefined if this handler cannot tell. */
  health(): { readonly ok: boolean; readonly why?: string } | undefined;
  /** Logs what is owed as lost, once. */
  dropOwed(): void;
  close(): Promise<void>;
}

const TIMEOUT_MS = 50;

/**
 * Decides nothing without the store, as under `onStoreFailure: deny`, and calls the store every
 * time.
 */
export class DenyDuringOutage implements OutageHandler {
  readonly timeoutMs: number;
  readonly admitsShares = false;
  readonly #ensureClock: (queue: number, timeoutMs: number) => Promise<void> | undefined;

  /**
   * `ensureClock` reads the clock of a queue if it is unknown, and returns undefined if it is
   * known.
   */
  constructor(
    ensureClock: (queue: number, timeoutMs: number) => Promise<void> | undefined,
    timeoutMs = TIMEOUT_MS,
  ) {
    this.#ensureClock = ensureClock;
    this.timeoutMs = timeoutMs;
  }

  isAway(): boolean {
    return false;
  }

  prepare(queue: number): Promise<void> | undefined {
    return this.#ensureClock(queue, this.timeoutMs);
  }

  reservedFor(): undefined {
    return undefined;
  }

  decide(): StoreUnavailable {
    return { unavailable: true };
  }

  withOwed(_accountRef: AccountRef, refused: ChargeResult): ChargeResult {
    return refused;
  }

  lastKnown(
    _accountRef: AccountRef,
    _limits: readonly Limit[],
    known: QuotaDecision | undefined,
  ): QuotaDecision | undefined {
    return known;
  }

  lostUnits(): number {
    return 0;
  }

  owedUnits(): number {
    return 0;
  }

  health(): undefined {
    return undefined;
  }

  // Nothing is owed, and nothing that is known answers a request: holds stand as they are.
  settle(): void {}
  onCallEnd(_queue: number, _failure: StoreFailure | undefined): void {}
  onCallTimeout(): void {}
  onLateDecision(): void {}
  onReading(): void {}
  reconfigure(): void {}
  dropOwed(): void {}
  async close(): Promise<void> {}
}
