import { ID_PATTERN, isAddressName } from "../../core/keys/records.ts";
import type { DaySpan, DayUsage } from "../../core/quota/days.ts";
import type {
  Ban,
  NewBan,
  QuotaDecision,
  QuotaRequest,
  WindowUsage,
} from "../../core/quota/decide.ts";
import type { Limit, WindowName } from "../../core/quota/windows.ts";
import type { GatewayNews } from "../../telemetry/gateway-status.ts";
import type {
  DeprecatedCall,
  DeprecatedOperation,
} from "../../telemetry/history/deprecated-calls.ts";

/** The name of an account, which lives in one environment (docs/reference/keys.md#accounts). */
export type AccountRef = {
  readonly environment: string;
  readonly account: string;
  /** Both as one text, where the name is kept: building and hashing it costs half a microsecond. */
  readonly id?: string;
  /** The store's: which group of keys the account is in, worked out once where the name is kept. */
  bucket?: number | undefined;
};

/** An account as one text; no environment has a colon in its name. */
export function accountId({ environment, account, id }: AccountRef): string {
  return id ?? `${environment}:${account}`;
}

/** The account that `accountId` made the text of. */
export function parseAccountId(id: string): AccountRef {
  const colon = id.indexOf(":");
  return { environment: id.slice(0, colon), account: id.slice(colon + 1) };
}

/** Whether requests without a key are counted here: a client address, which has no history. */
export function isAddressAccount({ account }: AccountRef): boolean {
  return isAddressName(account);
}

/**
 * The names under which requests without a key are counted: `addr:192.0.2.1`, `addr:2001:db8:0:0::/64`,
 * `addr:other` (docs/reference/plans.md#public-operations).
 */
const ADDRESS_ACCOUNT = /^addr:(?:other|[0-9a-f:.]{1,60}(?:\/64)?)$/;

/** Whether a store can hold counts under this name: the id of an account, or a client address. */
export function isAccountName(text: string): boolean {
  return ID_PATTERN.test(text) || ADDRESS_ACCOUNT.test(text);
}

/**
 * An answer of the store. `by` says how it came about: `store`, decided by the store that all
 * gateways share; `memory`, a refusal that its last answer still holds for; `local`, decided here while that store is away, from this gateway's share of the
 * limit (docs/reference/store.md#shares).
 */
export type ChargeResult = {
  readonly verdict: QuotaDecision;
  /**
   * The ban that this very request earned, in force or observed; or that a refusal before it earned
   * which had its answer already.
   */
  readonly earned?: NewBan;
  /** Units of the same verdict that were admitted after this one: it was merged with other asks. */
  readonly unspent: number;
  readonly admitted: boolean;
  readonly by: "store" | "memory" | "local" | "share";
};

/** A request of an account. */
export type AccountRequest = { readonly name: AccountRef; readonly ask: QuotaRequest };

/**
 * The count of a window rose above `from`, up to `used`, after the requests were answered: they were
 * decided without the store, and charged late.
 */
export type LateUsage = {
  readonly name: AccountRef;
  readonly plan: string | undefined;
  readonly usage: WindowUsage & { readonly from: number };
};

/** Why there is no answer: the store is away and `onStoreFailure` is `deny`. */
export type StoreUnavailable = { readonly unavailable: true };

/**
 * The parts of the configuration that say what holds while the store is away
 * (docs/reference/store.md#away).
 */
export type FailurePolicy = {
  readonly onStoreFailure: "local" | "deny" | "allow";
  readonly expectedGateways: number;
  /** How long a call may take before its requests are decided without it. */
  readonly storeTimeoutMs: number;
};

/** The parts of the configuration that a store takes from a reload. */
export type StorePolicy = FailurePolicy & {
  /** For how long the usage of each account is kept by day; undefined: not at all. */
  readonly historyMs: number | undefined;
};

/** A window that was set to 0, and the units that it had counted until then. */
export type ResetWindow = {
  readonly counter: string;
  readonly units: number;
};

/** The windows of an account that were set to 0, at an instant of the store's clock. */
export type ResetEvent = {
  readonly name: AccountRef;
  readonly atMs: number;
  readonly windows: readonly ResetWindow[];
};

/** A ban by hand; `plan` is that of the account, and `reason` may be empty. */
export type ImposedBan = {
  readonly lengthMs: number;
  readonly window: WindowName;
  readonly keptMs: number;
  readonly plan: string;
  readonly reason: string;
};

/**
 * How the ban that ends at `untilMs` came about at `atMs`: people imposed it, for a reason or for none,
 * or strikes at these instants earned it.
 */
export type BanCause = {
  readonly untilMs: number;
  readonly atMs: number;
  readonly imposed: boolean;
  readonly reason: string;
  readonly strikesMs: readonly number[];
};

/** A ban that people imposed, as it is told; or the end of one that they lifted. */
export type BanEvent = {
  readonly name: AccountRef;
  readonly atMs: number;
  readonly imposed:
    | (Pick<Ban, "untilMs" | "offences"> & Pick<ImposedBan, "window" | "plan" | "reason">)
    | undefined;
};

/** A change that a command made in the store, for one gateway to tell. */
export type AdminEvent = ResetEvent | BanEvent;

/** A part of a shared store: some buckets of a Cluster, and the node that has them. */
export type StorePart = { readonly node: string; readonly buckets: readonly number[] };

/** A part that cannot be reached, and why, in words. */
export type MissingPart = StorePart & { readonly why: string };

/** Called for each part that cannot be reached, perhaps more than once. Without it the call rejects. */
export type OnMissing = (part: MissingPart) => void;

export type AccountBan = AccountRef & { readonly ban: Ban };

/**
 * Decides requests: all that the path of a request needs. Every implementation passes
 * test/stores/quotas/quota-store.ts unchanged.
 *
 * - Charges every window or none: a refused request costs nothing.
 * - Windows are aligned to UTC by the store's own clock, and never go back.
 * - Answers at once, without a promise, when the answer is at hand.
 * - Never rejects: a failure of the store is handled inside
 *   (docs/reference/store.md#away).
 */
export interface QuotaDecider {
  /** Decides and charges one request of the account. `ask.requests` is 1. */
  charge(
    name: AccountRef,
    ask: QuotaRequest,
  ): ChargeResult | StoreUnavailable | Promise<ChargeResult | StoreUnavailable>;

  /**
   * The account as earlier answers tell it, in the windows of `limits` or in all that are known;
   * undefined if there are none. Costs nothing and changes nothing.
   */
  lastKnown(name: AccountRef, limits?: readonly Limit[]): QuotaDecision | undefined;

  /**
   * Drops the cached decisions of one account. Without a name, after a change of keys or plans, drops
   * the cached refusals of all accounts: their counts still bound what is admitted during an outage.
   */
  invalidate(name?: AccountRef): void;
}

/** Reads and changes accounts for people. Everything rejects while the store is unreachable. */
export interface QuotaAdmin {
  /** The account as the store has it now; charges nothing. */
  peek(name: AccountRef, ask: Omit<QuotaRequest, "requests">): Promise<QuotaDecision>;

  /** The part of a shared store that has the account; undefined where the store has one part. */
  partOf(name: AccountRef): StorePart | undefined;

  /** Every ban in force. */
  bans(onMissing?: OnMissing): Promise<AccountBan[]>;

  /**
   * Bans an account from now on, whatever it has done: no offence, and a ban in force is replaced.
   * `window` tells it in the fields of a refusal. `keptMs` is how long the store remembers it after
   * its end. Strikes are cleared. Every gateway knows it within a second.
   */
  ban(name: AccountRef, imposed: ImposedBan): Promise<Ban>;

  /**
   * How the last ban of the account came about; undefined if that is not known: there was none, it was
   * lifted, or an earlier version made it. It is that of a ban in force only if `untilMs` is the same.
   */
  banCause(name: AccountRef): Promise<BanCause | undefined>;

  /** Ends a ban and forgets its offences and strikes; false when there was none in force. */
  liftBan(name: AccountRef): Promise<boolean>;

  /**
   * Sets the running windows of the account to 0, first refusals too, in one call: all of them, or
   * those of the counters named (`minute`, `1z141z3.minute`: see `counterName`). Returns what each had
   * counted. Bans and strikes stay. Every gateway drops its cached decision within a second; the part
   * over which they hear of it may be missing.
   */
  reset(
    name: AccountRef,
    counters?: readonly string[],
    onMissing?: OnMissing,
  ): Promise<readonly ResetWindow[]>;

  /**
   * The usage of each of the accounts by UTC day, oldest day first, in their order; days without any
   * are left out (docs/reference/history.md), and all of accounts in a missing part.
   */
  history(
    names: readonly AccountRef[],
    span: DaySpan,
    onMissing?: OnMissing,
  ): Promise<readonly (readonly DayUsage[])[]>;

  /**
   * Makes every gateway drop its cached decisions of these accounts within a second, as after a raised
   * limit or a changed plan.
   */
  invalidateEverywhere(names: readonly AccountRef[]): Promise<void>;

  /** How many gateways share the store, by their heartbeats; undefined without a shared store. */
  gatewayCount(): Promise<number | undefined>;

  /**
   * Whether this gateway is the first of all that share the store to set the marker, which is kept for
   * `lifeMs`: the first one tells people. One command; true without a shared store. Asked again
   * after a failure it returns what it would have returned.
   */
  markFirst(marker: string, lifeMs: number): Promise<boolean>;
}

/** How the store is, for /readyz and /metrics. Counts are since the start of this process. */
export interface StoreStatus {
  /** Whether the store answers, and if not, why. */
  health(): { readonly ok: boolean; readonly why?: string };

  /** Commands sent to a shared store. */
  commandCount(): number;

  /**
   * Units that may have been charged twice, and units that were admitted and will never be charged
   * (docs/reference/store.md#uncertain-charges).
   */
  charges(): { readonly uncertainUnits: number; readonly lostUnits: number };

  /** Whether a shared store may evict counters to make room. */
  unsafePolicy(): boolean;

  /** Whether a shared store may have more than one master, or none, by what its Sentinels say. */
  isSplit(): boolean;
}

/** The counters and bans that one configuration names. */
export interface QuotaStore extends QuotaDecider, QuotaAdmin, StoreStatus {
  readonly activity: ActivityStore;
  readonly gateways: GatewayDirectory;

  /** A reload may change how long history is kept, and the policy during an outage. */
  reconfigure(policy: StorePolicy): void;

  close(): Promise<void>;
}

/** Requests of an account that were refused on a day of UTC, counted since 1970. */
export type RefusalCount = {
  readonly name: { readonly environment: string; readonly account: string };
  readonly day: number;
  readonly requests: number;
};

/** The id of a key, and a day on which it was used. */
export type KeyUse = { readonly key: string; readonly day: number };

/**
 * The things that gateways notice and tell the store now and then, in a few calls for many
 * (docs/reference/history.md#notes). None of it decides anything.
 */
export interface ActivityStore {
  /** Adds to the history of the accounts. Gives those that were not added, for another time. */
  addRefused(refused: readonly RefusalCount[]): Promise<readonly RefusalCount[]>;
  /** Remembers the last day of each key. Rejects when the store is away; telling it again does no harm. */
  addUsed(used: readonly KeyUse[]): Promise<void>;
  /**
   * Adds calls of deprecated operations. Gives the sums of these accounts, of all gateways, in order.
   * Rejects when the store is away: nothing was added.
   */
  addCalls(calls: readonly DeprecatedCall[]): Promise<readonly DeprecatedCall[]>;
  /** The last day on which each of the keys was used; those that never were are left out. */
  lastUsed(keys: readonly string[]): Promise<ReadonlyMap<string, number>>;
  /** Up to 10,000 accounts that called each of the operations. Rejects when the store is away. */
  calls(operations: readonly DeprecatedOperation[]): Promise<readonly DeprecatedCall[]>;
}

/** The messages of the gateways that share the store, under their names. */
export interface GatewayDirectory {
  /** Replaces the last message of this gateway. Rejects when the store is away. */
  announce(name: string, status: string): Promise<void>;
  /** This gateway is no more. Never rejects. */
  withdraw(name: string): Promise<void>;
  /** The last message of each, of the last ten minutes. Rejects when the store is away. */
  list(): Promise<readonly GatewayNews[]>;
}
