import type { Ban } from "../../../../core/quota/bans.ts";
import { type DaySpan, type DayUsage, dayOf, monthOf } from "../../../../core/quota/days.ts";
import type { QuotaDecision, QuotaRequest } from "../../../../core/quota/decide.ts";
import { type Holds, type MeterUse, meterChanges } from "../../../../core/quota/meters.ts";
import type { Limit } from "../../../../core/quota/windows.ts";
import { deniedReporter } from "../../../redis/denied-rights.ts";
import { connectRedis } from "../../../redis/engines/single-link.ts";
import { type CountedLink, countingLink } from "../../../redis/link.ts";
import { type StoreFailure, toStoreFailure, withTimeout } from "../../../redis/store-failure.ts";
import { type AccountRef, accountId, bucketOf } from "../../account-ref.ts";
import type {
  AdminEvent,
  BanCause,
  ImposedBan,
  ResetScope,
  ResetWindow,
} from "../../admin-changes.ts";
import { Batcher } from "../../batch/batcher.ts";
import { DecisionCache, isInvalidated } from "../../batch/decision-cache.ts";
import {
  reportLostSettlement,
  reportRepair,
  reportUncertain,
  type UncertainCharge,
} from "../../charge-reports.ts";
import type { CountCorrections, LostCount } from "../../count-corrections.ts";
import { DenyDuringOutage, type OutageHandler } from "../../outage-handler.ts";
import type {
  AccountBan,
  LastKnownOptions,
  OddCharges,
  OnMissing,
  QuotaStore,
  RepeatableChange,
  StorePart,
  StorePolicy,
} from "../../quota-store.ts";
import { AccountChanges } from "../changes/account-changes.ts";
import { AccountEdits } from "../changes/account-edits.ts";
import { createQuotaClient, type QuotaClient, REPLY_LATE_MS } from "../quota-client.ts";
import type { RedisQuotaStoreOptions } from "../quota-store-options.ts";
import { wasReset } from "../stored-resets.ts";
import { readDayHistory } from "./day-history.ts";
import { listBans } from "./list-bans.ts";
import { Markers } from "./markers.ts";
import { RedisActivity } from "./redis-activity.ts";
import { RedisGateways } from "./redis-gateways.ts";
import { RedisUsageMarks } from "./redis-usage-marks.ts";
import {
  type EvictionWatcher,
  lostCountReporter,
  watchClock,
  watchEviction,
  watchSplit,
} from "./store-warnings.ts";

const HISTORY_WAITS = "refused requests wait in the gateway, and are not in the history yet";
/** Failures that a probe cannot see the end of if it only reads. */
const OF_WRITES = new Set(["OOM", "READONLY", "MISCONF", "NOREPLICAS", "NOPERM"]);

/**
 * The store of many gateways. Resolves once it is connected or the first attempt to connect has
 * failed: an unreachable store does not keep a gateway from starting. After that it connects by
 * itself.
 */
export async function createRedisQuotaStore(options: RedisQuotaStoreOptions): Promise<QuotaStore> {
  const link = countingLink(connectRedis(options));
  const store = new RedisQuotaStore(link, options);
  await link.tried;
  await store.clockKnown;
  return store;
}

class RedisQuotaStore implements QuotaStore {
  readonly #link: CountedLink;
  readonly #options: RedisQuotaStoreOptions;
  readonly #quotaClient: QuotaClient;
  readonly #batch: Batcher;
  readonly #changes: AccountChanges;
  readonly #edits: AccountEdits;
  readonly #markers: Markers;
  readonly #eviction: EvictionWatcher;
  readonly #split: { stop(): void };
  readonly #clockWatch: ReturnType<typeof watchClock> | undefined;
  readonly #tellLoss: ReturnType<typeof lostCountReporter>;
  readonly #decisionCache: DecisionCache;
  readonly #outage: OutageHandler;
  readonly activity: RedisActivity;
  readonly gateways: RedisGateways;
  readonly usageMarks: RedisUsageMarks;
  #failure: StoreFailure | undefined;
  #uncertainUnits = 0;

  constructor(link: CountedLink, options: RedisQuotaStoreOptions) {
    const { address, prefix, report, now, historyMs, onCall } = options;
    const { shown } = address;
    const quotaClient = createQuotaClient(link, prefix, { clock: now, historyMs, onCall });
    this.#link = link;
    this.#options = options;
    this.#quotaClient = quotaClient;
    this.#decisionCache = new DecisionCache(now, quotaClient.clockOf);
    this.activity = new RedisActivity(quotaClient, deniedReporter(shown, report, HISTORY_WAITS));
    this.gateways = new RedisGateways(quotaClient);
    this.usageMarks = new RedisUsageMarks(quotaClient);
    this.#outage = this.#createOutageHandler();
    this.#batch = this.#createBatcher();
    this.#changes = this.#openChanges();
    this.#edits = new AccountEdits(quotaClient, this.#changes, shown);
    this.#markers = new Markers(quotaClient);
    this.#tellLoss = lostCountReporter(shown, report, (accountRef, lost) => {
      return wasReset(quotaClient, accountRef, lost);
    });
    this.#eviction = watchEviction(link, shown, report);
    this.#split = watchSplit(link, shown, report);
    // A command looks once, and its first answer is the one that it asked for.
    const isGateway = options.logsOwnChanges ?? options.onAdminEvent !== undefined;
    if (isGateway && now === undefined) this.#clockWatch = watchClock(quotaClient, shown, report);
  }

  #createOutageHandler(): OutageHandler {
    const { outage, timeoutMs } = this.#options;
    const quotaClient = this.#quotaClient;
    const inputs = { quotaClient, decisionCache: this.#decisionCache };
    const told = { onUncertain: this.#tellUncertain, corrections: this.#corrections() };
    return (
      outage?.({ ...inputs, ...told }) ?? new DenyDuringOutage(quotaClient.ensureClock, timeoutMs)
    );
  }

  #createBatcher(): Batcher {
    const { clustered, nodeOf } = this.#link;
    return new Batcher({
      call: this.#quotaClient.decideGroups,
      queueOf: (accountRef) => (clustered ? bucketOf(accountRef) : 0),
      nodeOf,
      clockOf: this.#quotaClient.clockOf,
      decisionCache: this.#decisionCache,
      outage: this.#outage,
      onVerdict: (accountRef, decision, lost) => this.#told(accountRef, decision, lost),
      onCalled: (failure) => {
        this.#failure = failure;
      },
      onUncertain: this.#tellUncertain,
    });
  }

  #openChanges(): AccountChanges {
    const { address, report, onAdminEvent, onReset, ...own } = this.#options;
    return new AccountChanges({
      quotaClient: this.#quotaClient,
      decisionCache: this.#decisionCache,
      onAdminEvent,
      onReset,
      onDropped: (changes) => report("error", "changes_dropped", { store: address.shown, changes }),
      logsOwnChanges: own.logsOwnChanges,
      onOwnChange: own.onOwnChange,
      probed: (failure) => {
        const mayBeOver = !OF_WRITES.has(this.#failure?.code ?? "");
        if (failure !== undefined || mayBeOver) this.#failure = failure;
      },
      tellDenied: deniedReporter(address.shown, report),
    });
  }

  /** Resolves once the store has said its time, or soon without an answer. */
  get clockKnown(): Promise<void> | undefined {
    return this.#clockWatch?.known;
  }

  charge(accountRef: AccountRef, quotaRequest: QuotaRequest): ReturnType<QuotaStore["charge"]> {
    return this.#batch.charge(accountRef, quotaRequest);
  }

  settle(accountRef: AccountRef, holds: Holds, used: readonly MeterUse[]): void {
    this.#outage.settle(accountRef, holds, meterChanges(holds, used));
  }

  lastKnown(
    accountRef: AccountRef,
    limits?: readonly Limit[],
    options: LastKnownOptions = {},
  ): QuotaDecision | undefined {
    const last = this.#decisionCache.lastKnown(accountRef, limits);
    if (limits === undefined) return last;
    const known = last && options.hasBans === false ? { ...last, ban: undefined } : last;
    return this.#outage.lastKnown(accountRef, limits, known, options);
  }

  invalidate(accountRef?: AccountRef): void {
    if (accountRef === undefined) this.#decisionCache.invalidate();
    else this.#decisionCache.outdate(accountRef);
  }

  async peek(
    accountRef: AccountRef,
    quotaRequest: Omit<QuotaRequest, "requests">,
  ): Promise<QuotaDecision> {
    const one = { accountRef, quotaRequest: { ...quotaRequest, requests: 0 } };
    const [outcome] = await withTimeout(this.#quotaClient.decide([one]), REPLY_LATE_MS);
    if (outcome === undefined || "failure" in outcome) throw outcome?.failure;
    return outcome;
  }

  async read(
    accountRef: AccountRef,
    quotaRequest: Omit<QuotaRequest, "requests">,
  ): Promise<QuotaDecision> {
    const invalidated = this.#decisionCache.beginCall();
    try {
      const decision = await this.peek(accountRef, quotaRequest);
      const isOutdated = isInvalidated(invalidated, accountId(accountRef));
      if (!isOutdated) this.#outage.onReading(accountRef, decision);
      return decision;
    } finally {
      this.#decisionCache.endCall(invalidated);
    }
  }

  partOf(accountRef: AccountRef): StorePart | undefined {
    return this.#link.partOf(bucketOf(accountRef));
  }

  bans(onMissing?: OnMissing): Promise<AccountBan[]> {
    const heldBans: DecisionCache["heldBans"] = (stored) => this.#decisionCache.heldBans(stored);
    return listBans(this.#quotaClient, { heldBans, now: this.#options.now }, onMissing);
  }

  knownBan(accountRef: AccountRef): Ban | undefined {
    return this.#decisionCache.heldBan(accountRef);
  }

  ban(accountRef: AccountRef, imposed: ImposedBan, onMissing?: OnMissing): Promise<Ban> {
    return this.#edits.ban(accountRef, imposed, onMissing);
  }

  banCause(accountRef: AccountRef): Promise<BanCause | undefined> {
    return this.#edits.banCause(accountRef);
  }

  liftBan(accountRef: AccountRef, onMissing?: OnMissing, isLost?: boolean): Promise<boolean> {
    return this.#edits.liftBan(accountRef, onMissing, isLost);
  }

  reset(
    accountRef: AccountRef,
    scope: ResetScope = {},
    onMissing?: OnMissing,
  ): Promise<ResetWindow[]> {
    return this.#edits.reset(accountRef, scope, onMissing);
  }

  async readNow(): Promise<number> {
    const { ensureClock, clockOf } = this.#quotaClient;
    await ensureClock(0, REPLY_LATE_MS)?.catch((error: unknown) => {
      const isRefused = toStoreFailure(error).code === "NOPERM";
      if (!isRefused && !this.#link.clustered) throw error;
    });
    return this.#options.now?.() ?? clockOf(0).now();
  }

  history(
    accountRefs: readonly AccountRef[],
    span: DaySpan,
    onMissing?: OnMissing,
  ): Promise<readonly DayUsage[][]> {
    return readDayHistory(this.#quotaClient, accountRefs, span, onMissing);
  }

  /** A month is kept as a whole. */
  async oldestDay(): Promise<number> {
    const nowMs = await this.readNow();
    return monthOf(dayOf(nowMs - (this.#quotaClient.historyMs ?? 0)));
  }

  async whyUnsaved(): Promise<undefined> {}

  hearChange(event: AdminEvent): void {
    void this.#changes.hear(event);
  }

  markFirst(marker: string, lifeMs: number, change?: RepeatableChange): Promise<boolean> {
    return this.#markers.markFirst(marker, lifeMs, change);
  }

  reconfigure(policy: StorePolicy): void {
    this.#quotaClient.historyMs = policy.historyMs;
    this.#outage.reconfigure(policy);
  }

  charges(): OddCharges {
    const [lostUnits, owedUnits] = [this.#outage.lostUnits(), this.#outage.owedUnits()];
    return { uncertainUnits: this.#uncertainUnits, lostUnits, owedUnits };
  }

  /** This store has no file. */
  unwrittenCount(): number {
    return 0;
  }

  clockAheadMs(): number {
    return this.#quotaClient.clockOf(0).aheadOfMachineMs;
  }

  commandCount(): number {
    return this.#link.sent;
  }

  unsafePolicy(): boolean {
    return this.#eviction.unsafe();
  }

  isSplit(): boolean {
    return this.#link.split() !== undefined;
  }

  health(): { readonly ok: boolean; readonly why?: string } {
    const told = this.#outage.health();
    // A fallback decides without the store and logs that, so it says whether the store is away.
    if (told?.ok) return told;
    const way = this.#link.health();
    const failure = this.#failure;
    // A fallback has a heartbeat that writes, so it knows more than the last call does.
    const known = told ?? { ok: failure === undefined, why: failure?.message ?? "" };
    // On a Cluster the fallback knows which part is unreachable. Otherwise the link knows why there
    // is no connection.
    if (!known.ok && (way.ok || this.#link.clustered)) return known;
    return way.ok ? way : { ok: false, why: way.failure.message };
  }

  dropOwed(): void {
    this.#outage.dropOwed();
  }

  async close(): Promise<void> {
    this.#changes.close();
    this.#eviction.stop();
    this.#split.stop();
    this.#clockWatch?.stop();
    this.#batch.close();
    await this.#outage.close();
    await this.#link.close();
    // The calls that waited for replies until then are told as uncertain first.
    await new Promise(setImmediate);
  }

  #corrections(): CountCorrections {
    const { onLateUsage, onLateBan, report, address } = this.#options;
    return {
      onBanned: (late) => {
        const { ban, nowMs } = late.decision;
        if (ban !== undefined) this.#changes.tellBanSoon(late.accountRef, nowMs, ban);
        onLateBan?.(late);
      },
      onCounted: (usage) => onLateUsage?.(usage),
      onLowered: (accountRef, totals, nowMs) => this.#changes.tellCounts(accountRef, totals, nowMs),
      onCountLost: (accountRef, lost) => this.#tellLoss(accountRef, lost),
      onDayClosed: ({ environment, account }, units) => {
        report("warn", "day_closed", { store: address.shown, environment, account, units });
      },
      onSettlementLost: (accountRef, lost) => reportLostSettlement(report, accountRef, lost),
    };
  }

  readonly #tellUncertain = (charges: readonly UncertainCharge[]): void => {
    const { address, report } = this.#options;
    this.#uncertainUnits += reportUncertain(report, address.shown, charges);
  };

  #told(accountRef: AccountRef, decision: QuotaDecision, lost: LostCount | undefined): void {
    const { environment, account } = accountRef;
    const told = { environment, account, store: this.#options.address.shown };
    if (decision.repaired) reportRepair(this.#options.report, told, decision);
    if (lost !== undefined) this.#tellLoss(accountRef, lost);
    const { ban, newBan, nowMs } = decision;
    if (ban && newBan) this.#changes.tellBanSoon(accountRef, nowMs, ban);
  }
}
