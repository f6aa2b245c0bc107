import { type BanPolicy, strikeLifeMs } from "../../../core/quota/bans.ts";
import { type AccountState, NEW_ACCOUNT_STATE } from "../../../core/quota/decide.ts";
import { counterWindow, type Limit, latestEnd, SPARE_MS } from "../../../core/quota/windows.ts";
import { type AccountRef, isAddressAccount } from "../account-ref.ts";
import type { BanCause } from "../admin-changes.ts";

/** One account, flat to be small. `limits` are those of its last request, in that `era`. */
export type AccountEntry = Mutable<AccountState> & {
  limits: readonly Limit[];
  era: number;
  recent: boolean;
  /** How the last ban came about. It is stale if its end differs from the end of `ban`. */
  cause: BanCause | undefined;
};
type Mutable<T> = { -readonly [member in keyof T]: T[member] };

const NO_LIMITS: readonly Limit[] = [];

export function newAccountEntry(
  { usage, strikesMs, ban }: AccountState = NEW_ACCOUNT_STATE,
  cause?: BanCause,
): AccountEntry {
  return { usage, strikesMs, ban, limits: NO_LIMITS, era: -1, recent: true, cause };
}

/** How the account's ban came about, in force or remembered; undefined if unknown. */
export function causeOf({ ban, cause }: Pick<AccountEntry, "ban" | "cause">): BanCause | undefined {
  return ban !== undefined && ban.untilMs === cause?.untilMs ? cause : undefined;
}

/** The cause of a ban whose end was moved to `untilMs`: all its instants move as far. */
export function movedCause(cause: BanCause, untilMs: number): BanCause {
  const byMs = untilMs - cause.untilMs;
  const strikesMs = cause.strikesMs.map((ms) => Math.max(0, ms + byMs));
  return { ...cause, untilMs, atMs: Math.max(0, cause.atMs + byMs), strikesMs };
}

/** The accounts that one sweep checks: about a millisecond of work. */
const SWEEP_ACCOUNTS = 10_000;
/** The accounts that are checked for an idle one to drop, before any account is dropped. */
const IDLE_SEARCH = 64;

/**
 * The accounts of the memory store. At most `accountsMax` of them are kept, and as many client
 * addresses: each kind has places of its own, so that no number of addresses drops an account
 * (docs/reference/plans.md#public-operations), and filling those of accounts takes as many keys.
 */
export class AccountTable {
  readonly #accounts: Places;
  readonly #addresses: Places;

  constructor(accountsMax: number, onOverflow: () => void) {
    this.#accounts = new Places(accountsMax, onOverflow);
    this.#addresses = new Places(accountsMax, onOverflow);
  }

  find(accountRef: AccountRef): AccountEntry | undefined {
    return this.#placesOf(accountRef).find(accountRef);
  }

  add(accountRef: AccountRef, entry: AccountEntry): AccountEntry {
    return this.#placesOf(accountRef).add(accountRef, entry);
  }

  *all(): Generator<[AccountRef, AccountEntry]> {
    yield* this.#accounts.all();
    yield* this.#addresses.all();
  }

  /** Checks the next accounts and addresses, and drops those of which nothing counted for a while. */
  sweep(policy: BanPolicy | undefined, nowMs: number): void {
    this.#accounts.sweep(policy, nowMs);
    this.#addresses.sweep(undefined, nowMs);
  }

  #placesOf(accountRef: AccountRef): Places {
    return isAddressAccount(accountRef) ? this.#addresses : this.#accounts;
  }
}

/**
 * Entries by environment, then account, so that finding one builds no string. Beyond `max` those
 * that were idle longest are dropped, those without a ban first.
 */
class Places {
  readonly #environments = new Map<string, Map<string, AccountEntry>>();
  readonly #max: number;
  readonly #onOverflow: () => void;
  #size = 0;
  #hand: Iterator<[AccountRef, AccountEntry]> = this.all();

  constructor(max: number, onOverflow: () => void) {
    this.#max = max;
    this.#onOverflow = onOverflow;
  }

  find({ environment, account }: AccountRef): AccountEntry | undefined {
    return this.#environments.get(environment)?.get(account);
  }

  add({ environment, account }: AccountRef, entry: AccountEntry): AccountEntry {
    let accounts = this.#environments.get(environment);
    if (accounts === undefined) {
      accounts = new Map();
      this.#environments.set(environment, accounts);
    }
    if (!accounts.has(account)) {
      if (this.#size >= this.#max) this.#forgetIdle();
      this.#size += 1;
    }
    accounts.set(account, entry);
    return entry;
  }

  *all(): Generator<[AccountRef, AccountEntry]> {
    for (const [environment, accounts] of this.#environments) {
      for (const [account, entry] of accounts) yield [{ environment, account }, entry];
    }
  }

  sweep(policy: BanPolicy | undefined, nowMs: number): void {
    for (let looked = 0; looked < SWEEP_ACCOUNTS; looked++) {
      const next = this.#next();
      if (next === undefined) return;
      const [accountRef, entry] = next;
      if (isOver(entry, policy, nowMs - SPARE_MS)) this.#remove(accountRef);
      else entry.recent = false;
    }
  }

  #forgetIdle(): void {
    this.#onOverflow();
    for (let looked = 0; ; looked++) {
      // There are accounts, so a new round has a first one.
      const [accountRef, entry] = this.#next() ?? (this.#next() as [AccountRef, AccountEntry]);
      if (looked >= IDLE_SEARCH || (!entry.recent && entry.ban === undefined)) {
        this.#remove(accountRef);
        return;
      }
      entry.recent = false;
    }
  }

  #remove({ environment, account }: AccountRef): void {
    if (this.#environments.get(environment)?.delete(account)) this.#size -= 1;
  }

  /** The next account in turn, oldest first, in rounds; undefined at the end of a round. */
  #next(): [AccountRef, AccountEntry] | undefined {
    const { done, value } = this.#hand.next();
    if (!done) return value;
    this.#hand = this.all();
    return undefined;
  }
}

/** Whether the account's windows, strikes and offences are all over. */
export function isOver(state: AccountState, policy: BanPolicy | undefined, nowMs: number): boolean {
  const { ban, strikesMs, usage } = state;
  if (ban !== undefined && nowMs < ban.untilMs + (policy?.forgetAfterMs ?? 0)) return false;
  const keepMs = strikeLifeMs(policy);
  if (strikesMs.some((atMs) => nowMs - atMs < keepMs)) return false;
  for (const counter in usage) {
    const stored = usage[counter];
    if (stored !== undefined && latestEnd(counterWindow(counter), stored.startMs) > nowMs)
      return false;
  }
  return true;
}
