import type { QuotaDecision, QuotaRequest } from "../../core/quota/decide.ts";
import type { Limit } from "../../core/quota/windows.ts";
import type { StoreFailure } from "../redis/store-failure.ts";
import type { AccountRef, ChargeResult, FailurePolicy, StoreUnavailable } from "./quota-store.ts";

/** Units that the store may have charged although nobody knows of it, or twice. */
export type UncertainCharge = { readonly name: AccountRef; readonly units: number };

/**
 * Decides while the store is away (docs/reference/store.md#away), and knows when it is. A queue is
 * the part of the store that can be away by itself: a bucket of a Cluster, else all of it.
 */
export interface OutageHandler {
  /** How long a call may take before its requests are decided without it, in milliseconds. */
  readonly patienceMs: number;
  /**
   * Whether requests that got no answer are admitted from a share of their limits: then no other call
   * of the queue that is under way may admit any beside them.
   */
  readonly shares: boolean;
  /** True while the store is known to be away: no ask of this queue goes out. */
  isAway(queue: number): boolean;
  /**
   * Work that goes ahead of the next call of the queue: the clock is learnt, and debts are charged, so
   * that it is decided with all of them counted. Undefined, as nearly always, when there is none.
   * Rejects with StoreFailure.
   */
  prepare(queue: number): Promise<void> | undefined;
  /**
   * The limits by which the store is to decide, from those of the ask: less where other gateways may
   * have admitted requests, in an absence that is over, that they have not charged yet.
   */
  limitsFor(queue: number, name: AccountRef, limits: readonly Limit[]): readonly Limit[];
  /** Decides one request without the store. */
  decide(name: AccountRef, ask: QuotaRequest): ChargeResult | StoreUnavailable;
  /** Told of the end of each call of a queue: `failure` is undefined when it was answered. */
  called(queue: number, failure: StoreFailure | undefined): void;
  /**
   * Nobody waits any more for a call of the queue. `answered` settles when its answer has come and
   * `ranLate` was told of it, or when it is known to be lost; it does not reject.
   */
  gaveUp(queue: number, answered: Promise<void>): void;
  /**
   * Told of a verdict for requests that were decided without it, since it came too late. Gives the
   * units that are charged twice by that.
   */
  ranLate(name: AccountRef, verdict: QuotaDecision, units: number): number;
  /** The parts of the configuration that a reload may change. */
  reconfigure(policy: FailurePolicy): void;
  /** Units that were admitted without the store and will never be charged. */
  lostUnits(): number;
  /** Why the store is away, for /readyz; undefined where this cannot tell. */
  health(): { readonly ok: boolean; readonly why?: string } | undefined;
  close(): Promise<void>;
}
