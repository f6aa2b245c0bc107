import { dayOf } from "../../core/quota/days.ts";
import { type AccountRef, accountId, isAddressAccount } from "../../stores/quotas/account-ref.ts";
import type {
  ActivityStore,
  AddedCalls,
  RefusalCount,
} from "../../stores/quotas/activity-store.ts";
import {
  type DeprecatedCall,
  DeprecatedCalls,
  type DeprecatedOperation,
} from "../../telemetry/history/deprecated-calls.ts";
import type { AccessLogEntry } from "../../telemetry/log/access-log-entry.ts";

const EVERY_MS = 30_000;
/** The least time between two reads, each for all accounts that asked since the last one. */
const LEARN_MS = 1_000;
/** The most accounts with refused requests, and the most keys, kept between two flushes. */
const NOTICED_MAX = 100_000;

type ActivityRecorderOptions = {
  readonly activityStore: ActivityStore;
  /** Whether usage by day is kept, so that refused requests are counted there. */
  readonly keepsDays: () => boolean;
  /** The store's clock, in Unix milliseconds: days are of it. */
  readonly now: () => number;
  /** The deprecated operations of all descriptions. */
  readonly deprecated: () => readonly DeprecatedOperation[];
  readonly everyMs?: number;
  readonly learnMs?: number;
};

/**
 * Collects what this process observes and sends it to the store twice a minute, in few calls:
 * refused requests, used keys, and calls of deprecated operations
 * (docs/reference/history.md#notes). Its memory is bounded, and no request waits for it.
 */
export class ActivityRecorder {
  readonly #options: ActivityRecorderOptions;
  readonly #timer: NodeJS.Timeout;
  #refused = new Map<string, { accountRef: AccountRef; day: number; requests: number }>();
  /** The last day of each key that was sent to the store, or is about to be. */
  readonly #days = new Map<string, number>();
  #used = new Map<string, number>();
  readonly #calls = new DeprecatedCalls();
  /** The calls at all gateways, of the accounts that called at this one or asked here. */
  readonly #known = new DeprecatedCalls();
  /** The accounts that asked for their calls since they were last read. */
  #asked = new Map<string, AccountRef>();
  #learning: NodeJS.Timeout | undefined;
  #telling: Promise<void> | undefined;
  #tellingCalls: Promise<void> = Promise.resolve();

  constructor(options: ActivityRecorderOptions) {
    this.#options = options;
    const { everyMs = EVERY_MS } = options;
    // A process that has nothing else to do ends: what it noted last is written by `close`.
    this.#timer = setInterval(() => void this.flush(), everyMs).unref();
  }

  /** Called once for each request line. */
  request({ env, account, key, decision, decidedAt }: AccessLogEntry): void {
    if (env === undefined || account === undefined) return;
    const day = dayOf(decidedAt ?? this.#options.now());
    // The line of a long request comes after those of later days.
    if (key !== undefined && (this.#days.get(key) ?? 0) < day) this.#use(key, day);
    if (decision === "refused" && this.#options.keepsDays()) this.#refuse(env, account, day);
  }

  /** The clock as the gateway knows it serves only for a call that no store has decided. */
  addDeprecatedCall(
    operation: DeprecatedOperation,
    account: string,
    decidedAtMs = this.#options.now(),
  ): void {
    this.#calls.note(operation, account, decidedAtMs);
    this.#known.note(operation, account, decidedAtMs);
  }

  /**
   * The deprecated operations that the account calls, as far as this process knows. What other
   * processes have counted is read soon after, for the next time that the account asks.
   */
  callsOf(environment: string, account: string) {
    if (this.#asked.size < NOTICED_MAX) {
      this.#asked.set(accountId({ environment, account }), { environment, account });
      this.#learnSoon();
    }
    return this.#known.callsOf(environment, account);
  }

  /**
   * Flushes to the store now. Never rejects: if the store is unreachable, the next flush sends the
   * data.
   */
  flush(): Promise<void> {
    this.#telling ??= this.#tellAll().finally(() => {
      this.#telling = undefined;
    });
    return this.#telling;
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    clearTimeout(this.#learning);
    await this.#telling;
    await this.flush();
  }

  #use(key: string, day: number): void {
    // Sending a day twice does no harm.
    if (this.#days.size >= NOTICED_MAX) this.#days.clear();
    this.#days.set(key, day);
    if (this.#used.size < NOTICED_MAX) this.#noteUse(key, day);
  }

  #noteUse(key: string, day: number): void {
    this.#used.set(key, Math.max(day, this.#used.get(key) ?? 0));
  }

  #refuse(environment: string, account: string, day: number): void {
    const accountRef = { environment, account };
    if (isAddressAccount(accountRef)) return;
    const id = `${day} ${accountId(accountRef)}`;
    const noticed = this.#refused.get(id);
    if (noticed !== undefined) noticed.requests += 1;
    else if (this.#refused.size < NOTICED_MAX)
      this.#refused.set(id, { accountRef, day, requests: 1 });
  }

  async #tellAll(): Promise<void> {
    await Promise.all([this.#tellRefused(), this.#tellUsed(), this.#tellCalls()]);
  }

  async #tellRefused(): Promise<void> {
    const refused = this.#refused;
    if (refused.size === 0) return;
    this.#refused = new Map();
    const all = [...refused.values()];
    const left = await this.#options.activityStore.addRefused(all).catch((): RefusalCount[] => all);
    for (const { accountRef, day, requests } of left) {
      const id = `${day} ${accountId(accountRef)}`;
      const since = this.#refused.get(id)?.requests ?? 0;
      this.#refused.set(id, { accountRef, day, requests: requests + since });
    }
  }

  async #tellUsed(): Promise<void> {
    const used = this.#used;
    if (used.size === 0) return;
    this.#used = new Map();
    const all = [...used].map(([key, day]) => ({ key, day }));
    try {
      await this.#options.activityStore.addUsed(all);
    } catch {
      for (const { key, day } of all) this.#noteUse(key, day);
    }
  }

  /** Once at a time, so that nobody reads the store while calls that were taken are on their way. */
  #tellCalls(): Promise<void> {
    this.#tellingCalls = this.#tellingCalls.then(() => this.#addCalls());
    return this.#tellingCalls;
  }

  async #addCalls(): Promise<void> {
    const calls = this.#calls.take();
    if (calls.length === 0) return;
    const added = await this.#options.activityStore
      .addCalls(calls)
      .catch((): AddedCalls => ({ sums: [], left: calls }));
    for (const call of added.left) this.#calls.add(call);
    for (const sum of added.sums) this.#know(sum);
  }

  #learnSoon(): void {
    const { learnMs = LEARN_MS } = this.#options;
    this.#learning ??= setTimeout(() => void this.#learn(), learnMs).unref();
  }

  /** Tells the store first, so that other processes can read what this one has counted. */
  async #learn(): Promise<void> {
    await this.#tellCalls();
    const asked = [...this.#asked.values()];
    this.#asked = new Map();
    // While the store is unreachable, each operation would wait for it.
    await this.#read(asked).catch(() => undefined);
    this.#learning = undefined;
    if (this.#asked.size > 0) this.#learnSoon();
  }

  async #read(asked: readonly AccountRef[]): Promise<void> {
    const { activityStore, deprecated } = this.#options;
    const byEnvironment = Map.groupBy(asked, ({ environment }) => environment);
    for (const operation of deprecated()) {
      const accounts =
        byEnvironment.get(operation.environment)?.map(({ account }) => account) ?? [];
      if (accounts.length === 0) continue;
      for (const sum of await activityStore.callsBy(operation, accounts)) this.#know(sum);
    }
  }

  /** Notes the sum of the store, and adds the calls that the store has not been told yet. */
  #know(sum: DeprecatedCall): void {
    this.#known.set(sum);
    const untold = this.#calls.callOf(sum, sum.account);
    if (untold !== undefined) this.#known.add(untold);
  }
}
