import { FairBuffer } from "../../base/fair-buffer.ts";
import { RingBuffer } from "../../base/ring-buffer.ts";
import { isAddressName } from "../../core/keys/records.ts";
import type { AccessLogEntry } from "../log/access-log-entry.ts";
import { type RefusedAccount, RefusedAccounts } from "./refused-accounts.ts";

/**
 * The most refusals kept: first of accounts and addresses, then of all others. The oldest of the
 * account with the most are dropped first.
 */
const REFUSALS_MAX = 10_000;
const OTHERS_MAX = 1_000;

/**
 * Units that were charged for a request in progress, which no log line mentions yet. `decidedAt` is
 * in Unix milliseconds of the store's clock.
 */
export type OpenCharge = {
  readonly account: string;
  readonly environment: string;
  readonly units: number;
  readonly decidedAt: number;
  /** The plan and the configuration that it was decided by. Older gateways do not tell them. */
  readonly plan?: string;
  readonly config?: string;
  /** Units that the request holds of each meter, or has used once it is settled; absent if it has none. */
  readonly meters?: Readonly<Record<string, number>>;
};

/**
 * Called for each process of a gateway that does not answer in time, with the number of the worker.
 */
export type OnUnanswered = (worker: number) => void;

/** The memory of a gateway's own refusals, to explain them. */
export type Diagnostics = {
  /** The log line of a refused request, by its id. */
  refusal(id: string, onUnanswered: OnUnanswered): Promise<AccessLogEntry | undefined>;
  /** The charges of requests in progress. */
  openCharges(onUnanswered: OnUnanswered): Promise<readonly OpenCharge[]>;
  /** The accounts with the most refusals within the last 15 minutes. */
  refused(): Promise<readonly RefusedAccount[]>;
  /** Flushes to the store now, instead of within 30 s. Never rejects. */
  flushToStore(onUnanswered: OnUnanswered): Promise<void>;
};

/** The parts of the process that this memory reads. */
type Process = {
  /** The charges of the requests in progress. */
  readonly open: () => readonly OpenCharge[];
  readonly tellStore: () => Promise<void>;
};

/** The refusals of this process. */
export class RecentRefusals implements Diagnostics {
  readonly #ofAccounts = new FairBuffer<AccessLogEntry>();
  /** Refusals of client addresses, which have no more room than the largest account. */
  readonly #ofAddresses = new FairBuffer<AccessLogEntry>();
  readonly #others = new RingBuffer<AccessLogEntry>(OTHERS_MAX);
  readonly #accounts = new RefusedAccounts();
  readonly #process: Process;

  constructor(process: Process) {
    this.#process = process;
  }

  /**
   * Called once for each access log entry. Entries of requests that were not refused are ignored.
   * `id` is the text of environment and account, if the caller has one: a text that is made for
   * each request must be hashed for each.
   */
  add(entry: AccessLogEntry, id = `${entry.env}:${entry.account}`): void {
    if (entry.code === undefined) return;
    const { account, env } = entry;
    // Requests of unknown callers must not push out the refusals of accounts.
    if (account === undefined || env === undefined) {
      this.#others.add(entry);
      return;
    }
    this.#keep(id, account, entry);
    if (entry.status < 500) this.#accounts.note(id, account, performance.now());
  }

  #keep(owner: string, account: string, entry: AccessLogEntry): void {
    (isAddressName(account) ? this.#ofAddresses : this.#ofAccounts).add(owner, entry);
    if (this.#ofAccounts.size + this.#ofAddresses.size <= REFUSALS_MAX) return;
    const isLarger = this.#ofAddresses.size > this.#ofAccounts.largest;
    (isLarger ? this.#ofAddresses : this.#ofAccounts).drop();
  }

  async openCharges(): Promise<readonly OpenCharge[]> {
    return this.#process.open();
  }

  async refused(): Promise<readonly RefusedAccount[]> {
    return this.#accounts.list(performance.now());
  }

  flushToStore(): Promise<void> {
    return this.#process.tellStore();
  }

  async refusal(id: string): Promise<AccessLogEntry | undefined> {
    const isAsked = (entry: AccessLogEntry) => entry.id === id;
    for (const known of [this.#ofAccounts, this.#ofAddresses]) {
      for (const entry of known.values()) if (isAsked(entry)) return entry;
    }
    return this.#others.all().find(isAsked);
  }
}
