import { RingBuffer } from "../../base/ring-buffer.ts";
import { findStrikes, type Strike } from "../../core/quota/explain.ts";
import type { AccessLogEntry } from "../log/log.ts";
import { type DeprecatedCall, DeprecatedCalls } from "./deprecated-calls.ts";

/** Refusals that are kept of accounts, of all others, and bans: the oldest leave first. */
const REFUSALS_MAX = 10_000;
const OTHERS_MAX = 1_000;
const BANS_MAX = 1_000;

/** A ban as it was earned. Instants are Unix seconds. */
export type BanRecord = {
  readonly account: string;
  readonly environment: string;
  readonly window: string;
  readonly at: number;
  readonly until: number;
  readonly offences: number;
  /** The ban was only announced: `bans.observe` was on. */
  readonly observed?: true;
  /** Refusals of this gateway that counted toward it, as far as they are still remembered. */
  readonly strikes: readonly Strike[];
};

type Named = Pick<BanRecord, "account" | "environment">;

/**
 * Units that were charged for a request which is still under way, so that no line of the log tells of
 * them yet. `decidedAt` is in Unix milliseconds of the store's clock.
 */
export type OpenCharge = Named & { readonly units: number; readonly decidedAt: number };

/** The memory of a gateway of its own refusals and bans, to say why. */
export type Diagnostics = {
  /** The line of a refused request, by its id. */
  refusal(id: string): Promise<AccessLogEntry | undefined>;
  /** The bans of an account, oldest first. */
  bansOf(account: Named): Promise<readonly BanRecord[]>;
  /** The charges of requests that are under way. */
  open(): Promise<readonly OpenCharge[]>;
  /** The accounts that called deprecated operations, since the gateway started. */
  deprecated(): Promise<readonly DeprecatedCall[]>;
  /** Tells the store now what would be told within a minute. Never rejects. */
  tellStore(): Promise<void>;
};

/** The parts of its process that a memory asks. */
type Process = {
  /** The charges of the requests under way. */
  readonly open: () => readonly OpenCharge[];
  readonly tellStore: () => Promise<void>;
};

/** The refusals and bans of this process. */
export class RecentRefusals implements Diagnostics {
  readonly #ofAccounts = new RingBuffer<AccessLogEntry>(REFUSALS_MAX);
  readonly #others = new RingBuffer<AccessLogEntry>(OTHERS_MAX);
  #bans: BanRecord[] = [];
  readonly calls = new DeprecatedCalls();
  readonly #process: Process;

  constructor(process: Process = { open: () => [], tellStore: async () => {} }) {
    this.#process = process;
  }

  /** Once for each request line; the lines of requests that were not refused are let go. */
  note(line: AccessLogEntry): void {
    if (line.code === undefined) return;
    // Requests without a key must not push out the refusals of those with one.
    const known = line.account === undefined ? this.#others : this.#ofAccounts;
    known.add(line);
  }

  /** A ban was earned at this instant, in Unix milliseconds. */
  banned(ban: Omit<BanRecord, "at" | "strikes">, nowMs: number): void {
    const strikes = findStrikes(this.#linesOf(ban), nowMs);
    this.#bans.push({ ...ban, at: nowMs / 1_000, strikes });
    if (this.#bans.length > BANS_MAX) this.#bans.shift();
  }

  async deprecated(): Promise<readonly DeprecatedCall[]> {
    return this.calls.list();
  }

  async open(): Promise<readonly OpenCharge[]> {
    return this.#process.open();
  }

  tellStore(): Promise<void> {
    return this.#process.tellStore();
  }

  async refusal(id: string): Promise<AccessLogEntry | undefined> {
    const isAsked = (line: AccessLogEntry) => line.id === id;
    return this.#ofAccounts.all().find(isAsked) ?? this.#others.all().find(isAsked);
  }

  /** The line of the request that earned a ban is written after it: it is found here. */
  async bansOf(named: Named): Promise<readonly BanRecord[]> {
    const bans = this.#bans.filter((ban) => isOf(ban, named));
    if (bans.length === 0) return [];
    const lines = this.#linesOf(named);
    return bans.map((ban) => {
      const strikes = findStrikes(lines, Math.round(ban.at * 1_000));
      return strikes.length > ban.strikes.length ? { ...ban, strikes } : ban;
    });
  }

  #linesOf(named: Named): AccessLogEntry[] {
    return this.#ofAccounts
      .all()
      .filter(({ account, env }) => account === named.account && env === named.environment)
      .sort((a, b) => (a.decidedAt ?? 0) - (b.decidedAt ?? 0));
  }
}

function isOf(ban: Named, { account, environment }: Named): boolean {
  return ban.account === account && ban.environment === environment;
}
