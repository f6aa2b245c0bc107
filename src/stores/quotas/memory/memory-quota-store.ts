import { inSlices } from "../../../base/event-loop.ts";
import { type Ban, type BanPolicy, banAt, presentBan } from "../../../core/quota/bans.ts";
import { type DaySpan, type DayUsage, dayOf } from "../../../core/quota/days.ts";
import {
  decide,
  NEW_ACCOUNT_STATE,
  type QuotaDecision,
  type QuotaRequest,
} from "../../../core/quota/decide.ts";
import { type Holds, heldUnits, type MeterUse, meterChanges } from "../../../core/quota/meters.ts";
import type { Limit } from "../../../core/quota/windows.ts";
import type { Reporter } from "../../../telemetry/log/log.ts";
import { type AccountRef, isAddressAccount } from "../account-ref.ts";
import {
  type BanCause,
  heardReset,
  type ImposedBan,
  type ResetScope,
  type ResetWindow,
} from "../admin-changes.ts";
import { reportLostCharges, reportLostSettlement, reportRepair } from "../charge-reports.ts";
import type {
  AccountBan,
  ChargeResult,
  OddCharges,
  QuotaStore,
  StoreCallbacks,
  StorePolicy,
} from "../quota-store.ts";
import type { UsageMarks } from "../usage-marks.ts";
import {
  type AccountEntry,
  AccountTable,
  causeOf,
  movedCause,
  newAccountEntry,
} from "./account-table.ts";
import { chargeInPlace } from "./charge-in-place.ts";
import type { DayCounts } from "./day-counts.ts";
import { endBan, imposeBan, resetCounters } from "./edit-entry.ts";
import type { MemoryActivity } from "./memory-activity.ts";
import { MemoryGateways } from "./memory-gateways.ts";
import { settleStanding } from "./settle-standing.ts";
import type { SavedAccount } from "./state-file.ts";
import { StateSaver } from "./state-saver.ts";
import { unsavedUnits } from "./unsaved-units.ts";

export type MemoryQuotaStoreOptions = StoreCallbacks & {
  /** The file in which counters and bans survive a restart. Without it they are lost. */
  readonly stateFile?: string | undefined;
  /** The store's clock, in Unix milliseconds. */
  readonly now: () => number;
  readonly report: Reporter;
  /** How long the usage of each account is kept by day; by default it is not kept. */
  readonly historyMs?: number | undefined;
  /** The rules of bans; by default they are off. */
  readonly bans?: BanPolicy | undefined;
  /**
   * The most accounts that are kept, and the most client addresses. Beyond it those of the kind that
   * were idle longest are dropped.
   */
  readonly accountsMax?: number;
  /** The interval between two writes of the state file, and between two sweeps. */
  readonly everyMs?: number;
};

const ACCOUNTS_MAX = 1_000_000;
const EVERY_MS = 1_000;
/** Every charge is made in this process, so none is uncertain. */
const NO_CHARGES: OddCharges = { uncertainUnits: 0, lostUnits: 0, owedUnits: 0 };

type StateParts = {
  readonly days: DayCounts;
  readonly activity: MemoryActivity;
  /** Releases the state file. */
  readonly release?: () => void;
  /** Whether the state file can be written; true unless given. */
  readonly isWritable?: boolean;
};

/** The embedded store: decide() in this process, answered without a promise. */
export class MemoryQuotaStore implements QuotaStore {
  readonly #options: MemoryQuotaStoreOptions;
  readonly #now: () => number;
  readonly #release: () => void;
  readonly #accounts: AccountTable;
  readonly #days: DayCounts;
  readonly activity: MemoryActivity;
  readonly gateways = new MemoryGateways();
  readonly usageMarks: UsageMarks;
  readonly #timer: NodeJS.Timeout;
  /** Entries of an older era hold limits that may no longer be those of the plan. */
  #era = 0;
  /** The rules in force for accounts. Addresses have none. */
  #bans: BanPolicy | undefined;
  readonly #saver: StateSaver;

  constructor(
    options: MemoryQuotaStoreOptions,
    saved: readonly SavedAccount[],
    { days, activity, release = () => undefined, isWritable = true }: StateParts,
  ) {
    const { now, report, accountsMax = ACCOUNTS_MAX, everyMs = EVERY_MS } = options;
    this.#options = options;
    this.#now = now;
    this.#release = release;
    this.#days = days;
    this.activity = activity;
    this.usageMarks = activity.usageMarks;
    this.#bans = options.bans;
    let overflowed = false;
    this.#accounts = new AccountTable(accountsMax, () => {
      if (!overflowed) report("warn", "accounts_full", { accountsMax });
      overflowed = true;
    });
    this.#saver = new StateSaver({
      ...{ stateFile: options.stateFile, report, now, days, activity },
      accounts: () => this.#saved(),
    });
    // A new file exists within a second, and that none can be written is told, without any request.
    this.#saver.changed = saved.length === 0;
    this.#saver.isTried = !isWritable;
    for (const { state, cause, ...name } of saved) {
      this.#accounts.add(name, newAccountEntry(state, cause));
    }
    this.#timer = setInterval(() => {
      this.#accounts.sweep(this.#bans, this.#now());
      this.#saver.start();
    }, everyMs).unref();
  }

  charge(accountRef: AccountRef, quotaRequest: QuotaRequest): ChargeResult {
    const entry = this.#entry(accountRef);
    const nowMs = this.#now();
    const decision =
      chargeInPlace(entry, quotaRequest, nowMs) ??
      this.#decide(accountRef, entry, quotaRequest, nowMs);
    entry.limits = quotaRequest.limits;
    entry.era = this.#era;
    entry.recent = true;
    this.#saver.changed = true;
    const { granted: requests, newBan: earned } = decision;
    const admitted = requests > 0;
    if (this.#days.keptMs !== undefined && admitted && !isAddressAccount(accountRef)) {
      const { cost = 1, plan } = quotaRequest;
      this.#days.admit(accountRef, nowMs, requests, requests * cost, plan);
      for (const { name: meter, units } of heldUnits(quotaRequest.limits)) {
        this.#days.addMetered(accountRef, dayOf(nowMs), meter, requests * units, nowMs);
      }
    }
    const answer = { decision, requestsAfter: 0, admitted, by: "store" } as const;
    return earned === undefined ? answer : { ...answer, earned };
  }

  #entry(accountRef: AccountRef): AccountEntry {
    return this.#accounts.find(accountRef) ?? this.#accounts.add(accountRef, newAccountEntry());
  }

  #decide(
    accountRef: AccountRef,
    entry: AccountEntry,
    quotaRequest: QuotaRequest,
    nowMs: number,
  ): QuotaDecision {
    const { account, decision } = decide(entry, quotaRequest, nowMs);
    const { ban } = account;
    if (ban !== undefined && decision.moved?.some(({ at }) => at === "ban")) {
      const cause = causeOf(entry);
      entry.cause = cause && movedCause(cause, ban.untilMs);
    }
    entry.usage = account.usage;
    entry.strikesMs = account.strikesMs;
    entry.ban = ban;
    if (decision.newBan !== undefined && decision.ban !== undefined) {
      const { untilMs, strikesMs } = decision.newBan;
      entry.cause = { untilMs, atMs: nowMs, imposed: false, reason: "", strikesMs };
    }
    if (decision.repaired) {
      const { environment, account } = accountRef;
      reportRepair(this.#options.report, { environment, account }, decision);
    }
    return decision;
  }

  /** The counts change at once, because they are in this process. */
  settle(accountRef: AccountRef, holds: Holds, used: readonly MeterUse[]): void {
    const nowMs = this.#now();
    const entry = this.#accounts.find(accountRef);
    const { id, plan, decidedMs: chargedMs } = holds;
    for (const { meter, units, windows } of meterChanges(holds, used)) {
      for (const standing of windows) {
        const usage = settleStanding(entry, standing, { units, chargedMs, nowMs });
        if (usage !== undefined) this.#options.onLateUsage?.({ accountRef, plan, usage });
      }
      if (this.#days.keptMs === undefined || isAddressAccount(accountRef)) continue;
      const day = dayOf(chargedMs);
      if (this.#days.addMetered(accountRef, day, meter, units, nowMs)) continue;
      reportLostSettlement(this.#options.report, accountRef, { day, meter, units, ids: [id] });
    }
    this.#saver.changed = true;
  }

  /**
   * The account as it is now, by the limits of its last request: this process has the only counts.
   */
  lastKnown(accountRef: AccountRef, limits?: readonly Limit[]): QuotaDecision | undefined {
    const entry = this.#accounts.find(accountRef);
    if (entry === undefined) return;
    const bans = isAddressAccount(accountRef) ? undefined : this.#bans;
    if (limits === undefined && entry.era !== this.#era) return;
    const quotaRequest = { limits: limits ?? entry.limits, bans, requests: 0 };
    return decide(entry, quotaRequest, this.#now()).decision;
  }

  async peek(
    accountRef: AccountRef,
    quotaRequest: Omit<QuotaRequest, "requests">,
  ): Promise<QuotaDecision> {
    const entry = this.#accounts.find(accountRef);
    const none = { ...quotaRequest, requests: 0 };
    const nowMs = this.#now();
    const { decision } = decide(entry ?? NEW_ACCOUNT_STATE, none, nowMs);
    if (entry === undefined || !decision.repaired) return decision;
    // The repair is kept, because a ban that each reading moves would not end when it was told to.
    this.#saver.changed = true;
    return this.#decide(accountRef, entry, none, nowMs);
  }

  read(
    accountRef: AccountRef,
    quotaRequest: Omit<QuotaRequest, "requests">,
  ): Promise<QuotaDecision> {
    return this.peek(accountRef, quotaRequest);
  }

  knownBan(): undefined {
    return undefined;
  }

  partOf(): undefined {
    return undefined;
  }

  async bans(): Promise<AccountBan[]> {
    const found: AccountBan[] = [];
    await inSlices(this.#accounts.all(), ([accountRef, { ban: kept }]) => {
      const nowMs = this.#now();
      const ban = banAt(kept && presentBan(kept, nowMs), nowMs);
      if (ban !== undefined) found.push({ ...accountRef, ban, leftMs: ban.untilMs - nowMs });
    });
    return found;
  }

  async ban(accountRef: AccountRef, imposed: ImposedBan): Promise<Ban> {
    this.#saver.changed = true;
    return imposeBan(this.#entry(accountRef), imposed, this.#now());
  }

  async banCause(accountRef: AccountRef): Promise<BanCause | undefined> {
    const entry = this.#accounts.find(accountRef);
    return entry && causeOf(entry);
  }

  async markFirst(): Promise<boolean> {
    return true;
  }

  async liftBan(accountRef: AccountRef): Promise<boolean> {
    const entry = this.#accounts.find(accountRef);
    const isLifted = entry !== undefined && endBan(entry, this.#now());
    if (isLifted) this.#saver.changed = true;
    return isLifted;
  }

  async reset(accountRef: AccountRef, scope: ResetScope = {}): Promise<ResetWindow[]> {
    const entry = this.#accounts.find(accountRef);
    if (entry === undefined) return [];
    this.#saver.changed = true;
    const atMs = this.#now();
    const windows = resetCounters(entry, scope, atMs);
    const heard = heardReset({ accountRef, atMs, windows });
    if (heard !== undefined) this.#options.onReset?.(heard);
    return windows;
  }

  whyUnsaved(): Promise<string | undefined> {
    return this.#saver.whyUnsaved();
  }

  readNow(): Promise<number> {
    return Promise.resolve(this.#now());
  }

  history(accountRefs: readonly AccountRef[], span: DaySpan): Promise<readonly DayUsage[][]> {
    return this.#days.read(accountRefs, span);
  }

  oldestDay(): Promise<number> {
    return Promise.resolve(this.#days.oldest(this.#now()));
  }

  reconfigure({ historyMs, bans }: StorePolicy): void {
    this.#days.keptMs = historyMs;
    this.#bans = bans;
  }

  /** No other process has this store. */
  hearChange(): void {}

  invalidate(accountRef?: AccountRef): void {
    if (accountRef === undefined) this.#era += 1;
    const entry = accountRef && this.#accounts.find(accountRef);
    if (entry !== undefined) entry.era = -1;
  }

  /** Serving does not need the file, so trouble with it does not make the store unhealthy. */
  health(): { readonly ok: boolean; readonly why?: string } {
    const { trouble } = this.#saver;
    return trouble === undefined ? { ok: true } : { ok: true, why: trouble };
  }

  clockAheadMs(): number {
    return 0;
  }

  commandCount(): number {
    return 0;
  }

  charges(): OddCharges {
    return NO_CHARGES;
  }

  unwrittenCount(): number {
    return this.#saver.failures;
  }

  unsafePolicy(): boolean {
    return false;
  }

  isSplit(): boolean {
    return false;
  }

  /** Does nothing: this store is never away. */
  dropOwed(): void {}

  async close(): Promise<void> {
    clearInterval(this.#timer);
    const { stateFile, report } = this.#options;
    const trouble = await this.#saver.whyUnsaved();
    try {
      if (trouble === undefined || stateFile === undefined || !this.#saver.isBehind) return;
      const unsaved = { stateFile, accounts: this.#saved(), days: this.#days };
      reportLostCharges(report, await unsavedUnits(unsaved));
      throw new Error(trouble);
    } finally {
      this.#release();
    }
  }

  *#saved(): Generator<SavedAccount> {
    for (const [{ environment, account }, state] of this.#accounts.all()) {
      yield { environment, account, state, cause: causeOf(state) };
    }
  }
}
