import { isAddressName } from "../../core/keys/records.ts";

/** Accounts that are kept for one operation. The one that called longest ago is dropped first. */
export const CALLERS_MAX = 10_000;
/** Client addresses without a key are kept apart, so that their number pushes out no account. */
export const ADDRESSES_MAX = 1_000;

/** Calls of a deprecated operation. `method` and `route` are those of its description. */
export type DeprecatedCall = {
  readonly environment: string;
  readonly method: string;
  readonly route: string;
  readonly account: string;
  readonly requests: number;
  /** The last call, in Unix seconds. */
  readonly last: number;
};

export type DeprecatedOperation = Pick<DeprecatedCall, "environment" | "method" | "route">;

type Callers = {
  readonly accounts: Map<string, DeprecatedCall>;
  readonly addresses: Map<string, DeprecatedCall>;
};

/** Remembers the accounts that call operations which will be removed. */
export class DeprecatedCalls {
  readonly #operations = new Map<string, Callers>();

  note({ environment, method, route }: DeprecatedOperation, account: string, nowMs: number): void {
    const last = Math.floor(nowMs / 1_000);
    this.add({ environment, method, route, account, requests: 1, last });
  }

  /** Adds calls that were counted elsewhere. Returns the sum of the account. */
  add(call: DeprecatedCall): DeprecatedCall {
    const before = this.#of(call).get(call.account);
    const requests = call.requests + (before?.requests ?? 0);
    const sum = { ...call, requests, last: Math.max(call.last, before?.last ?? 0) };
    this.set(sum);
    return sum;
  }

  /** Sets the sum of an account that is known from elsewhere. */
  set(call: DeprecatedCall): void {
    const callers = this.#of(call);
    const max = isAddressName(call.account) ? ADDRESSES_MAX : CALLERS_MAX;
    // Deleted and set again, so that the first entry of the map is the one that called longest ago.
    callers.delete(call.account);
    callers.set(call.account, call);
    if (callers.size > max) callers.delete(callers.keys().next().value as string);
  }

  list(): readonly DeprecatedCall[] {
    return [...this.#operations.values()].flatMap(({ accounts, addresses }) => {
      return [...accounts.values(), ...addresses.values()];
    });
  }

  /** The calls of one account. */
  callsOf(environment: string, account: string): readonly DeprecatedCall[] {
    return [...this.#operations.values()].flatMap(({ accounts }) => {
      const call = accounts.get(account);
      return call?.environment === environment ? [call] : [];
    });
  }

  /** Removes and returns all calls. */
  take(): readonly DeprecatedCall[] {
    const all = this.list();
    this.#operations.clear();
    return all;
  }

  #of({ environment, method, route, account }: DeprecatedCall): Map<string, DeprecatedCall> {
    const name = `${environment} ${method} ${route}`;
    let callers = this.#operations.get(name);
    if (callers === undefined) {
      callers = { accounts: new Map(), addresses: new Map() };
      this.#operations.set(name, callers);
    }
    return isAddressName(account) ? callers.addresses : callers.accounts;
  }
}
