import type { Ban, BanPolicy, NewBan } from "../../core/quota/bans.ts";
import type { DaySpan, DayUsage } from "../../core/quota/days.ts";
import type { QuotaDecision, QuotaRequest, WindowUsage } from "../../core/quota/decide.ts";
import type { Holds, MeterUse } from "../../core/quota/meters.ts";
import type { Limit } from "../../core/quota/windows.ts";
import type { GatewayNews } from "../../telemetry/gateway-status.ts";
import type { AccountRef } from "./account-ref.ts";
import type { ActivityStore } from "./activity-store.ts";
import type {
  AdminEvent,
  BanCause,
  HeardReset,
  ImposedBan,
  ResetScope,
  ResetWindow,
} from "./admin-changes.ts";
import type { UsageMarks } from "./usage-marks.ts";

/**
 * An answer of the store. `by` says how it was decided. `store`: by the store that all gateways
 * share. `memory`: a refusal that follows from the store's last answer. `local`: in this process
 * while the store is unreachable. `share`: a refusal, because only what this gateway may admit
 * without the others is used up (docs/reference/store.md#shares).
 */
export type ChargeResult = {
  readonly decision: QuotaDecision;
  /**
   * The ban that this request earned, in force or observed. It may also be a ban earned by an
   * earlier refusal that had its answer already.
   */
  readonly earned?: NewBan;
  /** Requests of the same decision that were admitted after this one: it was merged with others. */
  readonly requestsAfter: number;
  readonly admitted: boolean;
  readonly by: "store" | "memory" | "local" | "share";
};

/** A request of an account. */
export type AccountRequest = {
  readonly accountRef: AccountRef;
  readonly quotaRequest: QuotaRequest;
};

/**
 * The count of a window rose above `from`, up to `used`, after the requests were answered, because
 * they were decided without the store and charged late, or used more than they had held.
 */
export type LateUsage = {
  readonly accountRef: AccountRef;
  readonly plan: string | undefined;
  readonly usage: WindowUsage & { readonly from: number };
};

/** A call whose requests were decided without it earned this ban, by its late decision. */
export type LateBan = {
  readonly accountRef: AccountRef;
  readonly plan: string | undefined;
  readonly decision: QuotaDecision;
  readonly earned: NewBan;
};

/** The reason for no answer: the store is unreachable and `onStoreFailure` is `deny`. */
export type StoreUnavailable = { readonly unavailable: true };

/** The configuration for an unreachable store (docs/reference/store.md#away). */
export type FailurePolicy = {
  readonly onStoreFailure: "local" | "deny" | "allow";
  readonly expectedGateways: number;
  /** How long a call may take before its requests are decided without it. */
  readonly storeTimeoutMs: number;
};

/** The parts of the configuration that a store takes from a reload. */
export type StorePolicy = FailurePolicy & {
  /** How long the usage of each account is kept by day; undefined if it is not kept. */
  readonly historyMs: number | undefined;
  /** The rules of bans; undefined if they are off. */
  readonly bans: BanPolicy | undefined;
};

/**
 * A part of a shared store: some buckets of a Cluster, and the node that has them. Without buckets
 * it is the whole of a store that is no Cluster.
 */
export type StorePart = { readonly node: string; readonly buckets: readonly number[] };

/** A part that cannot be reached, or that does not do what is asked of it, and the reason in words. */
export type MissingPart = StorePart & { readonly why: string };

/** Called for each part that cannot be reached, perhaps more than once. Without it the call rejects. */
export type OnMissing = (part: MissingPart) => void;

/**
 * `leftMs` is how long the ban still lasted by the clock of the store when it was read. `isLost`: this
 * process refuses by it although the store has none.
 */
export type AccountBan = AccountRef & {
  readonly ban: Ban;
  readonly leftMs: number;
  readonly isLost?: true;
};

/**
 * How long ago this process saw a change, and after how many milliseconds a change to the same state
 * is another one. Gateways may ask about one change minutes apart.
 */
export type RepeatableChange = { readonly ageMs: number; readonly sameMs: number };

/**
 * `isRead`: the answer also tells what was read of the account, so that the windows have their whole
 * limits in an outage too. `hasBans`: whether bans are on, default true; a known ban is not told
 * without them.
 */
export type LastKnownOptions = { readonly isRead?: boolean; readonly hasBans?: boolean };

/**
 * Decides requests: all that the path of a request needs. Every implementation passes
 * test/stores/quotas/quota-store.ts unchanged.
 *
 * - Charges every window or none: a refused request costs nothing.
 * - Windows are aligned to UTC by the store's own clock, and never go back.
 * - Returns no promise if the answer is already in memory.
 * - Never rejects: the implementation handles a failure of the store
 *   (docs/reference/store.md#away).
 */
export interface QuotaDecider {
  /** Decides and charges one request of the account. `quotaRequest.requests` is 1. */
  charge(
    accountRef: AccountRef,
    quotaRequest: QuotaRequest,
  ): ChargeResult | StoreUnavailable | Promise<ChargeResult | StoreUnavailable>;

  /**
   * Adds the difference between what an admitted request used and what it holds to each window that
   * took the hold, is still running and was not reset since, and to the history of the day. To be
   * called once for a request. Returns at once: what is not settled in the end is logged.
   */
  settle(accountRef: AccountRef, holds: Holds, used: readonly MeterUse[]): void;

  /**
   * The account according to earlier answers, in the windows of `limits` or in all known windows;
   * undefined if there are none. With `limits` a change of keys or accounts outdates no answer,
   * because its counts stay valid, and in an outage the windows are as a request would be told them
   * that costs nothing. Changes nothing.
   */
  lastKnown(
    accountRef: AccountRef,
    limits?: readonly Limit[],
    options?: LastKnownOptions,
  ): QuotaDecision | undefined;

  /**
   * Drops the cached refusals of one account whose windows have changed, without a name those of all
   * accounts. Their counts still bound what is admitted during an outage, and their bans hold there.
   */
  invalidate(accountRef?: AccountRef): void;
}

/** Reads and changes accounts for people. Everything rejects while the store is unreachable. */
export interface QuotaAdmin {
  /** The account as the store has it now; charges nothing. */
  peek(
    accountRef: AccountRef,
    quotaRequest: Omit<QuotaRequest, "requests">,
  ): Promise<QuotaDecision>;

  /** As `peek`. What is read is the last known state of the account from then on. */
  read(
    accountRef: AccountRef,
    quotaRequest: Omit<QuotaRequest, "requests">,
  ): Promise<QuotaDecision>;

  /** The part of a shared store that has the account; undefined if the store has only one part. */
  partOf(accountRef: AccountRef): StorePart | undefined;

  /**
   * Every ban that has not ended, in force or kept while bans are off, and each `knownBan` of an
   * account that has none in the store.
   */
  bans(onMissing?: OnMissing): Promise<AccountBan[]>;

  /**
   * The ban by which this process refuses the account although the store may not have it. The
   * memory store has all.
   */
  knownBan(accountRef: AccountRef): Ban | undefined;

  /**
   * Bans an account from now on, whatever it has done. The ban is no offence, and replaces a ban in
   * force. `window` is the window that the fields of a refusal name. `keptMs` is how long the store
   * remembers the ban after its end. Strikes are cleared. Every gateway knows it within a second.
   * `onMissing` as for `reset`.
   */
  ban(accountRef: AccountRef, imposed: ImposedBan, onMissing?: OnMissing): Promise<Ban>;

  /**
   * How the last ban of the account came about. Undefined if that is unknown: there was none, it
   * was lifted, or an earlier version made it. The cause is that of a ban in force only if
   * `untilMs` is equal.
   */
  banCause(accountRef: AccountRef): Promise<BanCause | undefined>;

  /**
   * Ends a ban and forgets its offences and strikes. Returns false if no ban was in force. `isLost`:
   * a gateway knows one that the store does not have, so that a lift is told all the same.
   */
  liftBan(accountRef: AccountRef, onMissing?: OnMissing, isLost?: boolean): Promise<boolean>;

  /**
   * Sets the running windows of the account to 0, first refusals too, in one call. Returns the count
   * that each had. Bans and strikes stay. Every gateway drops its cached decision within a second.
   * `onMissing` is called if the part of the store that carries this message does not take it.
   */
  reset(
    accountRef: AccountRef,
    scope?: ResetScope,
    onMissing?: OnMissing,
  ): Promise<readonly ResetWindow[]>;

  /**
   * Resolves once a restart would not forget what was changed until now, to undefined; if it cannot be
   * written, to the reason in words. A shared store keeps it by itself.
   */
  whyUnsaved(): Promise<string | undefined>;

  /**
   * The store's time in Unix milliseconds, which is asked for if it is unknown. By this machine's
   * clock if the user of the store has no right to it, or if the one node of a Cluster that is asked
   * does not answer. Rejects if the store is unreachable.
   */
  readNow(): Promise<number>;

  /**
   * The usage of each of the accounts by UTC day, oldest day first, in the order of the accounts.
   * Days without usage are left out (docs/reference/history.md), and so are all accounts in a
   * missing part.
   */
  history(
    accountRefs: readonly AccountRef[],
    span: DaySpan,
    onMissing?: OnMissing,
  ): Promise<readonly (readonly DayUsage[])[]>;

  /**
   * The oldest day that is still kept, by the clock of the store: `history` may lack what was used
   * on days before it.
   */
  oldestDay(): Promise<number>;

  /** Hears of a change that another process of this gateway has made and tells the other gateways. */
  hearChange(event: AdminEvent): void;

  /**
   * Whether this gateway is the first of all that share the store to set the marker, which is kept
   * for `lifeMs`. The first one reports to people. Costs one command; true without a shared store.
   * A repeated call after a failure returns the same as the first would have. With `change`, the marker
   * is of a change that may come again.
   */
  markFirst(marker: string, lifeMs: number, change?: RepeatableChange): Promise<boolean>;
}

/** The state of the store, for /readyz and /metrics. Counts are since the start of this process. */
export interface StoreStatus {
  /** Whether the store answers, and if not, the reason. */
  health(): { readonly ok: boolean; readonly why?: string };

  /**
   * How far the store's clock is ahead of this machine's, in milliseconds, as far as it is known;
   * 0 without a shared store.
   */
  clockAheadMs(): number;

  /** Commands sent to a shared store. */
  commandCount(): number;

  /**
   * Units that may have been charged twice, units that were admitted and will never be charged
   * (docs/reference/store.md#uncertain-charges), and units that were admitted and are not charged
   * yet.
   */
  charges(): OddCharges;

  /** How often the state file could not be written. */
  unwrittenCount(): number;

  /** Whether a shared store may evict counters to make room. */
  unsafePolicy(): boolean;

  /** Whether a shared store may have more than one master, or none, according to its Sentinels. */
  isSplit(): boolean;
}

/** The calls of a store to its opener. */
export type StoreCallbacks = {
  /**
   * Called when counts rose by what requests used beyond their holds, or because of requests that
   * were decided while the store was unreachable.
   */
  readonly onLateUsage?: ((usage: LateUsage) => void) | undefined;
  /** Called with each reset of windows of meters, wherever it was made. */
  readonly onReset?: ((reset: HeardReset) => void) | undefined;
};

export type OddCharges = Readonly<Record<"uncertainUnits" | "lostUnits" | "owedUnits", number>>;

/** The counters and bans that one configuration names. */
export interface QuotaStore extends QuotaDecider, QuotaAdmin, StoreStatus {
  readonly activity: ActivityStore;
  readonly gateways: GatewayDirectory;
  readonly usageMarks: UsageMarks;

  /** A reload may change how long history is kept, and the rules of bans and of an outage. */
  reconfigure(policy: StorePolicy): void;

  /** Logs the units that are owed to the store as lost, because nothing will charge them. */
  dropOwed(): void;

  /** Rejects if counts are lost because their file could not be written. All is closed then too. */
  close(): Promise<void>;
}

/** The messages of the gateways that share the store, under their names. */
export interface GatewayDirectory {
  /** Replaces the last message of this gateway. Rejects if the store is unreachable. */
  announce(name: string, status: string): Promise<void>;
  /** Removes this gateway. Never rejects. */
  withdraw(name: string): Promise<void>;
  /** The last message of each, of the last ten minutes. Rejects if the store is unreachable. */
  list(): Promise<readonly GatewayNews[]>;
}
