import { isAddressName } from "../../core/keys/records.ts";

const MINUTE_MS = 60_000;
const MINUTES = 15;
/** Accounts that are counted in one minute. Further accounts of that minute are left out. */
const ACCOUNTS_MAX = 10_000;
/** Client addresses without a key. They take no room of accounts. */
const ADDRESSES_MAX = 1_000;
const TOLD_MAX = 10;

/** Refusals of an account within the last 15 minutes. */
export type RefusedAccount = {
  readonly account: string;
  readonly environment: string;
  readonly requests: number;
};

type Minute = {
  readonly number: number;
  readonly counts: Map<string, number>;
  readonly ofAddresses: Map<string, number>;
};

/** Counts refusals by account and minute. */
export class RefusedAccounts {
  #minutes: Minute[] = [];

  /**
   * Counts a refusal. `id` is the text of environment and account. `nowMs` is of a clock that never
   * goes back, such as performance.now().
   */
  note(id: string, account: string, nowMs: number): void {
    const minute = this.#minuteAt(nowMs);
    const isAddress = isAddressName(account);
    const counts = isAddress ? minute.ofAddresses : minute.counts;
    const count = counts.get(id);
    if (count === undefined && counts.size >= (isAddress ? ADDRESSES_MAX : ACCOUNTS_MAX)) return;
    counts.set(id, (count ?? 0) + 1);
  }

  /** The ten accounts with the most refusals, the most refused first. */
  list(nowMs: number): RefusedAccount[] {
    this.#forgetBefore(Math.floor(nowMs / MINUTE_MS));
    return mostRefused(
      this.#minutes.flatMap(({ counts, ofAddresses }) =>
        [...counts, ...ofAddresses].map(([id, requests]) => {
          const colon = id.indexOf(":");
          return { environment: id.slice(0, colon), account: id.slice(colon + 1), requests };
        }),
      ),
    );
  }

  #minuteAt(nowMs: number): Minute {
    const number = Math.floor(nowMs / MINUTE_MS);
    const last = this.#minutes.at(-1);
    if (last?.number === number) return last;
    const minute: Minute = { number, counts: new Map(), ofAddresses: new Map() };
    this.#forgetBefore(number);
    this.#minutes.push(minute);
    return minute;
  }

  /** Keeps the minutes that are of the last 15 in the minute `now`. */
  #forgetBefore(now: number): void {
    this.#minutes = this.#minutes.filter(({ number }) => number > now - MINUTES);
  }
}

/** Sums the counts of each account and returns the ten with the most, the most refused first. */
export function mostRefused(counted: readonly RefusedAccount[]): RefusedAccount[] {
  const sums = new Map<string, RefusedAccount>();
  for (const { account, environment, requests } of counted) {
    const id = `${environment} ${account}`;
    const before = sums.get(id)?.requests ?? 0;
    sums.set(id, { account, environment, requests: before + requests });
  }
  return [...sums.values()].sort((a, b) => b.requests - a.requests).slice(0, TOLD_MAX);
}
