/** Accounts that are kept of one operation: the one that called longest ago leaves first. */
export const CALLERS_MAX = 10_000;

/** Calls of a deprecated operation; `method` and `route` are those of its description. */
export type DeprecatedCall = {
  readonly environment: string;
  readonly method: string;
  readonly route: string;
  readonly account: string;
  readonly requests: number;
  /** The last of them, in Unix seconds. */
  readonly last: number;
};

export type DeprecatedOperation = Pick<DeprecatedCall, "environment" | "method" | "route">;

/** Remembers which accounts call operations that go away. */
export class DeprecatedCalls {
  readonly #operations = new Map<string, Map<string, DeprecatedCall>>();

  note({ environment, method, route }: DeprecatedOperation, account: string, nowMs: number): void {
    const last = Math.floor(nowMs / 1_000);
    this.add({ environment, method, route, account, requests: 1, last });
  }

  /** Adds calls that were counted elsewhere; gives the sum of the account. */
  add(call: DeprecatedCall): DeprecatedCall {
    const before = this.#of(call).get(call.account);
    const requests = call.requests + (before?.requests ?? 0);
    const sum = { ...call, requests, last: Math.max(call.last, before?.last ?? 0) };
    this.set(sum);
    return sum;
  }

  /** The sum of an account is known from elsewhere. */
  set(call: DeprecatedCall): void {
    const accounts = this.#of(call);
    // Deleted and set again, so that the first of the map is the one that called longest ago.
    accounts.delete(call.account);
    accounts.set(call.account, call);
    if (accounts.size > CALLERS_MAX) accounts.delete(accounts.keys().next().value as string);
  }

  list(): readonly DeprecatedCall[] {
    return [...this.#operations.values()].flatMap((accounts) => [...accounts.values()]);
  }

  /** The calls of one account. */
  callsOf(environment: string, account: string): readonly DeprecatedCall[] {
    return [...this.#operations.values()].flatMap((accounts) => {
      const call = accounts.get(account);
      return call?.environment === environment ? [call] : [];
    });
  }

  /** All of it, which is here no longer. */
  take(): readonly DeprecatedCall[] {
    const all = this.list();
    this.#operations.clear();
    return all;
  }

  #of({ environment, method, route }: DeprecatedOperation): Map<string, DeprecatedCall> {
    const name = `${environment} ${method} ${route}`;
    let accounts = this.#operations.get(name);
    if (accounts === undefined) {
      accounts = new Map();
      this.#operations.set(name, accounts);
    }
    return accounts;
  }
}
