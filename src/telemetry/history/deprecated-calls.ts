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
  readonly environment: string;
  readonly method: string;
  readonly accounts: Map<string, DeprecatedCall>;
  readonly addresses: Map<string, DeprecatedCall>;
};

/** Remembers the accounts that call operations which will be removed. */
export class DeprecatedCalls {
  /** By route: a name made of all three parts would cost more to make and to hash than the rest. */
  readonly #operations = new Map<string, Callers[]>();

  note(operation: DeprecatedOperation, account: string, nowMs: number): void {
    const last = Math.floor(nowMs / 1_000);
    const calls = this.#of(operation, account);
    const before = calls.get(account);
    // An account that has called in this second keeps its place among those that called last.
    if (before?.last === last) calls.set(account, { ...before, requests: before.requests + 1 });
    else {
      const { environment, method, route } = operation;
      this.add({ environment, method, route, account, requests: 1, last });
    }
  }

  /** The calls of one operation by one account. */
  callOf(operation: DeprecatedOperation, account: string): DeprecatedCall | undefined {
    return this.#of(operation, account).get(account);
  }

  /** Adds calls that were counted elsewhere. Returns the sum of the account. */
  add(call: DeprecatedCall): DeprecatedCall {
    const before = this.callOf(call, call.account);
    const requests = call.requests + (before?.requests ?? 0);
    const sum = { ...call, requests, last: Math.max(call.last, before?.last ?? 0) };
    this.set(sum);
    return sum;
  }

  /** Sets the sum of an account that is known from elsewhere. */
  set(call: DeprecatedCall): void {
    const calls = this.#of(call, call.account);
    const max = isAddressName(call.account) ? ADDRESSES_MAX : CALLERS_MAX;
    // Deleted and set again, so that the first entry of the map is the one that called longest ago.
    calls.delete(call.account);
    calls.set(call.account, call);
    if (calls.size > max) calls.delete(calls.keys().next().value as string);
  }

  list(): readonly DeprecatedCall[] {
    return [...this.#operations.values()].flat().flatMap(({ accounts, addresses }) => {
      return [...accounts.values(), ...addresses.values()];
    });
  }

  /** Removes and returns the calls of one operation by one account; without any, 0 requests. */
  takeOf(operation: DeprecatedOperation, account: string): DeprecatedCall {
    const { environment, method, route } = operation;
    const calls = this.#of(operation, account);
    const call = calls.get(account);
    calls.delete(account);
    return call ?? { environment, method, route, account, requests: 0, last: 0 };
  }

  /** Removes and returns all calls. */
  take(): readonly DeprecatedCall[] {
    const all = this.list();
    this.#operations.clear();
    return all;
  }

  #of({ environment, method, route }: DeprecatedOperation, account: string) {
    let all = this.#operations.get(route);
    if (all === undefined) {
      all = [];
      this.#operations.set(route, all);
    }
    let callers = all.find((one) => one.environment === environment && one.method === method);
    if (callers === undefined) {
      callers = { environment, method, accounts: new Map(), addresses: new Map() };
      all.push(callers);
    }
    return isAddressName(account) ? callers.addresses : callers.accounts;
  }
}
