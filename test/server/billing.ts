import assert from "node:assert/strict";
import { DAY_MS } from "../../src/core/quota/days.ts";
import { UsageEventSender } from "../../src/server/events/usage-event-sender.ts";
import { createMemoryQuotaStore } from "../../src/stores/quotas/memory/create-memory-quota-store.ts";
import type { QuotaStore } from "../../src/stores/quotas/quota-store.ts";
import { createLog } from "../../src/telemetry/log/log.ts";
import { recordsFrom } from "../support/records.ts";
import type { UsageReceiver } from "../support/usage-receiver.ts";
import { SECRET } from "../support/webhook-receiver.ts";

/** Noon of a day in the middle of a month. */
export const START = Date.UTC(2026, 9, 14, 12);
export const LIMITS = [{ window: "month", limit: 10 ** 9 }] as const;

type Options = {
  readonly receiver: UsageReceiver;
  readonly accounts?: readonly string[];
  readonly open?: (now: () => number) => Promise<QuotaStore>;
  readonly includedOfMonth?: number;
  /** The day on which months begin. */
  readonly anchor?: number;
  readonly historyMs?: number;
  readonly retryMs?: number;
  /** Whether senders pause as those of a gateway do. */
  readonly isPaced?: boolean;
  /** The clock of the senders' machine. Default: that of the store. */
  readonly machineNow?: () => number;
};

export const memoryFor = (historyMs: number) => (now: () => number) => {
  return createMemoryQuotaStore({ now, report: () => {}, historyMs });
};
export const memory = memoryFor(400 * DAY_MS);

/** A store whose clock the test holds, what it has charged, and senders that read it. */
export class Billing implements AsyncDisposable {
  nowMs = START;
  /** The kinds of events that the receiver wants, at this moment. */
  kinds: readonly string[] = ["usage"];
  readonly said: Record<string, unknown>[] = [];
  readonly charged: Record<string, number> = {};
  /** Whether the key records have been read. */
  isReady = true;
  /** A test that names another one here acts as a reload, and calls `reconfigure`. */
  receiver: UsageReceiver;
  readonly #options: Options;
  readonly accounts: readonly string[];
  readonly #senders: UsageEventSender[] = [];
  readonly #stores: QuotaStore[] = [];

  constructor(options: Options) {
    this.#options = options;
    this.receiver = options.receiver;
    this.accounts = options.accounts ?? ["acme", "beta"];
  }

  async openStore(): Promise<QuotaStore> {
    const store = await (this.#options.open ?? memory)(() => this.nowMs);
    this.#stores.push(store);
    return store;
  }

  send(quotas: QuotaStore): UsageEventSender {
    const { includedOfMonth, anchor, historyMs = 400 * DAY_MS, retryMs = 20 } = this.#options;
    const { isPaced = false, machineNow = () => this.nowMs } = this.#options;
    const isReady = () => this.isReady;
    const included = includedOfMonth ? [{ window: "month", limit: includedOfMonth } as const] : [];
    const bounds = { observe: [], included } as never;
    const calendar = anchor === undefined ? {} : { calendar: [{ day: anchor, fromMs: 0 }] };
    const given = recordsFrom(this.accounts.map((id) => ({ id, plan: "pro" })));
    const records = {
      ...given,
      accounts: given.accounts.map((account) => ({ ...account, ...calendar })),
    };
    const sender = new UsageEventSender({
      config: () => ({
        events: { url: this.receiver.url, secret: SECRET, kinds: this.kinds },
        historyMs,
        planBounds: new Map([["pro", bounds]]),
        storePrefix: "tollgate",
      }),
      keys: {
        get ready() {
          return isReady();
        },
        records: () => records,
      },
      quotas,
      log: createLog({ write: (line) => void this.said.push(JSON.parse(line)) }, "debug"),
      now: machineNow,
      ...(!isPaced && { everyMs: 20, retryMs }),
    });
    this.#senders.push(sender);
    sender.start();
    return sender;
  }

  async charge(store: QuotaStore, account: string, cost: number): Promise<void> {
    const accountRef = { environment: "production", account };
    const quotaRequest = { limits: LIMITS, bans: undefined, requests: 1, cost, plan: "pro" };
    const answer = await store.charge(accountRef, quotaRequest);
    assert.ok("admitted" in answer && answer.admitted);
    this.charged[account] = (this.charged[account] ?? 0) + cost;
  }

  lines(msg: string) {
    return this.said.filter((line) => line.msg === msg || line.kind === msg);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const sender of this.#senders) await sender.close();
    for (const store of this.#stores) await store.close();
  }
}
