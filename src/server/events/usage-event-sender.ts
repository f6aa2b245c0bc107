import type { Config } from "../../config/config.ts";
import { formatDay, lastClosedDay } from "../../core/quota/days.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import { includedOfMonth } from "../../stores/queries/read-history.ts";
import { readUntoldUsage, type UntoldUsage } from "../../stores/queries/untold-usage.ts";
import { accountId } from "../../stores/quotas/account-ref.ts";
import type { QuotaStore } from "../../stores/quotas/quota-store.ts";
import type { Log } from "../../telemetry/log/log.ts";
import {
  isSameReceiver,
  type PostFailure,
  postSigned,
  type Receiver,
  retryPauseMs,
} from "../../telemetry/log/signed-post.ts";
import { type AccountDay, usageMessage } from "./usage-event.ts";

type UsageEventSources = {
  readonly config: () => Pick<Config, "events" | "historyMs" | "planBounds" | "storePrefix">;
  readonly keys: Pick<KeyStore, "records" | "ready">;
  readonly quotas: Pick<QuotaStore, "history" | "oldestDay" | "partOf" | "readNow" | "usageMarks">;
  readonly log: Log;
  /** Unix milliseconds, of the clock that signs messages. Days close by that of the store. */
  readonly now: () => number;
  /** How often it looks for a day that has closed. */
  readonly everyMs?: number;
  /** The pause after the first failure; each further one doubles it. */
  readonly retryMs?: number;
};

const EVERY_MS = 10_000;
const FIRST_MS = 1_000;
const BATCH_MAX = 100;
/** Longer than a message and its mark may take, so that two gateways never send at once. */
const CLAIM_MS = 30_000;
/**
 * Statuses of a receiver that is away, busy or differently configured, whatever the event. Every
 * other one from 400 on may be for the event that was sent alone, 500 too: receivers fail so at
 * events that they did not expect.
 */
const OF_RECEIVER: ReadonlySet<number> = new Set([401, 408, 410, 425, 429, 502, 503, 504]);

/**
 * `done`: every day that is closed was acknowledged. `left`: some days were not, because their part
 * of the store or another gateway's claim was in the way, or their day is not closed there yet.
 * `moved`: a reload has named another receiver.
 */
type Outcome = "done" | "left" | "failed" | "moved";

type Settings = NonNullable<Config["events"]>;
type DueDays = AccountDay & { readonly throughDay: number };

/**
 * Sends the usage of each closed day to the receiver of events, read from the history and marked
 * when the receiver has acknowledged it (docs/reference/events.md#usage-events). Holds one page of the
 * history at most, and nothing between two attempts.
 */
export class UsageEventSender {
  readonly #sources: UsageEventSources;
  readonly #closing = new AbortController();
  /** Ends the wait for the answer of a receiver that a reload has replaced. */
  #moving = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  /** The last day that was acknowledged for all accounts. */
  #doneDay = Number.NEGATIVE_INFINITY;
  #failures = 0;
  #isLooking = false;
  #receiver: Receiver | undefined;
  /** Halved by each failure, so that an event that the receiver never accepts is soon alone. */
  #batchMax = BATCH_MAX;
  /** Accounts whose event was refused alone. The others come first. */
  readonly #setAside = new Set<string>();
  #isTroubled = false;

  constructor(sources: UsageEventSources) {
    this.#sources = sources;
  }

  start(): void {
    this.#receiver = this.#sources.config().events;
    this.#wake(Math.min(this.#everyMs, FIRST_MS));
  }

  /**
   * Ends a pause if a reload has named another receiver, and cuts a message under way to the one
   * before, which may be hung: without a mark it is sent again.
   */
  reconfigure(): void {
    const before = this.#receiver;
    this.#receiver = this.#sources.config().events;
    if (isSameReceiver(this.#receiver, before)) return;
    this.#failures = 0;
    this.#setAside.clear();
    this.#moving.abort();
    this.#moving = new AbortController();
    if (this.#isLooking) return;
    clearTimeout(this.#timer);
    this.#wake(0);
  }

  /** Cuts a message under way: without a mark it is sent again. */
  async close(): Promise<void> {
    this.#closing.abort();
    clearTimeout(this.#timer);
    await this.#running;
  }

  get #everyMs(): number {
    return this.#sources.everyMs ?? EVERY_MS;
  }

  #wake(afterMs: number): void {
    if (this.#closing.signal.aborted) return;
    this.#timer = setTimeout(() => {
      this.#isLooking = true;
      this.#running = this.#look().then((pauseMs) => {
        this.#isLooking = false;
        this.#wake(pauseMs);
      });
    }, afterMs).unref();
  }

  /** Sends what is to be sent. Resolves with the pause until the next look; never rejects. */
  async #look(): Promise<number> {
    const { config, keys, quotas, retryMs } = this.#sources;
    const { events, historyMs } = config();
    if (events === undefined || historyMs === undefined || !isWanted(events)) return this.#everyMs;
    const nowMs = await quotas.readNow().catch(() => undefined);
    // The store is unreachable, which has a line of its own.
    if (nowMs === undefined) return this.#everyMs;
    const closedDay = lastClosedDay(nowMs);
    if (closedDay <= this.#doneDay || !keys.ready) return this.#everyMs;
    const outcome = await this.#send(events, historyMs, closedDay);
    if (outcome === "done") this.#doneDay = closedDay;
    if (outcome === "moved") return 0;
    if (outcome !== "failed") return this.#everyMs;
    const pauseMs = retryPauseMs(this.#failures, retryMs);
    this.#failures += 1;
    return pauseMs;
  }

  async #send(settings: Settings, historyMs: number, closedDay: number): Promise<Outcome> {
    const { config, keys, quotas } = this.#sources;
    const options = { historyMs, includedOf: includedOfMonth(config()) };
    let isComplete = true;
    let hasSent = false;
    try {
      if (!(await quotas.usageMarks.claim(CLAIM_MS))) return "left";
      const pages = readUntoldUsage(quotas, keys.records().accounts, options);
      for await (const page of pages) {
        if (page.missing > 0 || page.closedDay < closedDay) isComplete = false;
        const accounts = page.accounts.filter(
          ({ accountRef }) => !this.#setAside.has(accountId(accountRef)),
        );
        const unused = accounts.filter(({ days }) => days.length === 0);
        await quotas.usageMarks.raise(unused.map(markOf));
        const due = accounts.flatMap(dueDays);
        hasSent ||= due.length > 0;
        const outcome = await this.#sendAll(settings, due);
        if (outcome !== "done") return outcome;
      }
    } catch {
      // The store is unreachable, which has a line of its own.
      return "left";
    } finally {
      await quotas.usageMarks.release();
    }
    if (this.#setAside.size === 0) return isComplete ? "done" : "left";
    this.#setAside.clear();
    return hasSent ? "failed" : this.#send(settings, historyMs, closedDay);
  }

  /** Rejects if the store is unreachable. */
  async #sendAll(settings: Settings, due: readonly DueDays[]): Promise<Outcome> {
    const { config, quotas, now } = this.#sources;
    const { signal: closing } = this.#closing;
    for (let at = 0; at < due.length; ) {
      const some = due.slice(at, at + this.#batchMax);
      if (!(await quotas.usageMarks.claim(CLAIM_MS))) return "left";
      if (!isSameReceiver(settings, this.#receiver)) return "moved";
      const cut = AbortSignal.any([closing, this.#moving.signal]);
      const message = usageMessage(some, `/tollgate/${config().storePrefix}`);
      const failure = await postSigned(settings, message, now(), cut);
      if (closing.aborted) return "left";
      if (failure !== undefined && cut.aborted) return "moved";
      if (failure !== undefined) {
        this.#noteFailure(some, failure);
        return "failed";
      }
      await quotas.usageMarks.raise(some.map(markOf));
      this.#noteSuccess(some);
      at += some.length;
    }
    return "done";
  }

  #noteFailure(some: readonly AccountDay[], { why, status }: PostFailure): void {
    const { log } = this.#sources;
    const [{ accountRef, usage }] = some as [AccountDay];
    const { environment: env, account } = accountRef;
    const isRefused = some.length === 1 && isOfEvent(status);
    if (isRefused) this.#setAside.add(accountId(accountRef));
    this.#batchMax = Math.max(1, Math.floor(some.length / 2));
    if (this.#isTroubled && !isRefused) return;
    this.#isTroubled = true;
    const which = isRefused ? { env, account, day: formatDay(usage.day) } : {};
    log.warn("usage_unsent", { ...which, why });
  }

  #noteSuccess(some: readonly AccountDay[]): void {
    const { log } = this.#sources;
    for (const { accountRef, usage } of some) {
      const { environment: env, account } = accountRef;
      const { plan, day, admitted, units, refused, overage, overageUnknown, meters } = usage;
      const told = { env, account, plan, day: formatDay(day), admitted, units, refused };
      log.info("usage", {
        ...told,
        ...(overage !== undefined && { overage }),
        ...(overageUnknown !== undefined && { overageUnknown }),
        ...(meters && { meters }),
      });
    }
    this.#failures = 0;
    this.#batchMax = Math.min(BATCH_MAX, this.#batchMax * 2);
    if (this.#setAside.size === 0 && this.#isTroubled) {
      this.#isTroubled = false;
      log.info("usage_sent", {});
    }
  }
}

function isOfEvent(status = 0): boolean {
  return status >= 400 && !OF_RECEIVER.has(status);
}

function isWanted({ kinds }: Settings): boolean {
  return kinds.includes("usage") || kinds.includes("all");
}

/** The mark that the acknowledgement of one day allows. */
function dueDays({ accountRef, days, throughDay }: UntoldUsage): DueDays[] {
  return days.map((usage, i) => {
    return { accountRef, usage, throughDay: i === days.length - 1 ? throughDay : usage.day };
  });
}

function markOf({ accountRef, throughDay }: Pick<UntoldUsage, "accountRef" | "throughDay">) {
  return { accountRef, day: throughDay };
}
