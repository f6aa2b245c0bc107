import { setTimeoutAfterPoll } from "../../base/event-loop.ts";
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
  /** How long the store may take for a command. */
  readonly storeTimeoutMs: () => number;
  readonly everyMs?: number;
};

/** The calls at all gateways, by the accounts that asked together. */
type CallsByAccount = ReadonlyMap<string, readonly DeprecatedCall[]>;

/**
 * Collects what this process observes and sends it to the store twice a minute, in few calls:
 * refused requests, used keys, and calls of deprecated operations
 * (docs/reference/history.md#notes). Its memory is bounded, and no request waits for it but one for
 * the calls of its account.
 */
export class ActivityRecorder {
  readonly #options: ActivityRecorderOptions;
  readonly #timer: NodeJS.Timeout;
  #refused = new Map<string, { accountRef: AccountRef; day: number; requests: number }>();
  /** The last day of each key that was sent to the store, or is about to be. */
  readonly #days = new Map<string, number>();
  #used = new Map<string, number>();
  readonly #calls = new DeprecatedCalls();
  /** The accounts that ask the store next, and its answer to them. */
  #asked = new Map<string, AccountRef>();
  #asking: Promise<CallsByAccount> | undefined;
  #telling: Promise<void> | undefined;
  #tellingCalls: Promise<unknown> = Promise.resolve();

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
  }

  /**
   * The deprecated operations that the account calls, with what other processes have told the store.
   * Undefined if the store does not say so in time. Costs at most one command that has the account,
   * which also adds its calls at this process.
   */
  async callsOf(accountRef: AccountRef): Promise<readonly DeprecatedCall[] | undefined> {
    if (this.#asked.size >= NOTICED_MAX) return undefined;
    const id = accountId(accountRef);
    this.#asked.set(id, accountRef);
    this.#asking ??= this.#inTurn(() => this.#askCalls());
    const { promise: late, resolve } = Promise.withResolvers<undefined>();
    // The command waits for the one before it, which has its own time.
    const withinMs = 2 * this.#options.storeTimeoutMs();
    const timer = setTimeoutAfterPoll(withinMs, () => resolve(undefined));
    const told = await Promise.race([this.#asking, late]);
    clearTimeout(timer);
    return told?.get(id);
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

  #tellCalls(): Promise<void> {
    return this.#inTurn(async () => void (await this.#addCalls(this.#calls.take())));
  }

  /** Once at a time, so that the store is not asked while calls that were taken are on their way. */
  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#tellingCalls.then(work);
    this.#tellingCalls = done;
    return done;
  }

  /** Asks for all accounts that have asked since the last time. */
  async #askCalls(): Promise<CallsByAccount> {
    const asked = this.#asked;
    this.#asked = new Map();
    this.#asking = undefined;
    const operations = Map.groupBy(this.#options.deprecated(), ({ environment }) => environment);
    const calls = [...asked.values()].flatMap(({ environment, account }) => {
      return (operations.get(environment) ?? []).map((one) => this.#calls.takeOf(one, account));
    });
    const sums = Map.groupBy(await this.#addCalls(calls), accountId);
    const told = new Map<string, readonly DeprecatedCall[]>();
    for (const [id, { environment }] of asked) {
      const all = sums.get(id) ?? [];
      if (all.length < (operations.get(environment)?.length ?? 0)) continue;
      told.set(
        id,
        all.map((sum) => this.#withUntold(sum)).filter(({ requests }) => requests > 0),
      );
    }
    return told;
  }

  /** Returns the sums of the accounts for which the store took the calls. */
  async #addCalls(calls: readonly DeprecatedCall[]): Promise<readonly DeprecatedCall[]> {
    if (calls.length === 0) return [];
    const added = await this.#options.activityStore
      .addCalls(calls)
      .catch((): AddedCalls => ({ sums: [], left: calls }));
    for (const call of added.left) if (call.requests > 0) this.#calls.add(call);
    return added.sums;
  }

  /** Adds the calls that came while the store was asked. */
  #withUntold(sum: DeprecatedCall): DeprecatedCall {
    const untold = this.#calls.callOf(sum, sum.account);
    if (untold === undefined) return sum;
    const requests = sum.requests + untold.requests;
    return { ...sum, requests, last: Math.max(sum.last, untold.last) };
  }
}
