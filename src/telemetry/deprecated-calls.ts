/** Accounts that are kept of one operation: the one that called longest ago leaves first. */
const ACCOUNTS_MAX = 10_000;

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

export type CalledOperation = Pick<DeprecatedCall, "environment" | "method" | "route">;

/** Remembers which accounts call operations that go away. */
export class DeprecatedCalls {
  readonly #operations = new Map<string, Map<string, DeprecatedCall>>();

  note(operation: CalledOperation, account: string, nowMs: number): void {
    const { environment, method, route } = operation;
    const name = `${environment} ${method} ${route}`;
    let accounts = this.#operations.get(name);
    if (accounts === undefined) {
      accounts = new Map();
      this.#operations.set(name, accounts);
    }
    const requests = (accounts.get(account)?.requests ?? 0) + 1;
    // Set anew, so that the first of the map is the one that called longest ago.
    accounts.delete(account);
    const last = Math.floor(nowMs / 1_000);
    accounts.set(account, { environment, method, route, account, requests, last });
    if (accounts.size > ACCOUNTS_MAX) accounts.delete(accounts.keys().next().value as string);
  }

  list(): readonly DeprecatedCall[] {
    return [...this.#operations.values()].flatMap((accounts) => [...accounts.values()]);
  }
}
