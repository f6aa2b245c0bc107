import type { Operation } from "../../core/http/route.ts";
import { DAY_MS } from "../../core/quota/days.ts";
import type { Config, EnvironmentConfig } from "../config.ts";
import { operationsIn } from "./services.ts";

export type DeprecationCaller = {
  readonly account: string;
  readonly requests: number;
  readonly last: number;
};

/**
 * One deprecated operation. Instants are Unix seconds; `daysLeft` is null without a sunset.
 * `accounts` is absent if the store that counts the calls could not be asked.
 */
export type Deprecation = {
  readonly environment: string;
  readonly method: string;
  readonly route: string;
  readonly sunset: number | null;
  readonly daysLeft: number | null;
  readonly successor: string | null;
  readonly accounts?: readonly DeprecationCaller[];
};

/** Calls of an operation by one account. */
export type CallCount = Pick<Deprecation, "environment" | "method" | "route"> & DeprecationCaller;

/**
 * The deprecated operations of all descriptions, the earliest sunset first, each with the accounts
 * that called it, the latest first. Calls of one account are added up. `calls` is undefined if they
 * are unknown.
 */
export function deprecationReport(
  { environments }: Config,
  calls: readonly CallCount[] | undefined,
  nowMs: number,
): readonly Deprecation[] {
  const found = environments.flatMap((environment) =>
    deprecatedIn(environment).map((one) => deprecationOf(environment.name, one, nowMs)),
  );
  return withCallers(found, calls);
}

type UncalledDeprecation = Omit<Deprecation, "accounts">;

/** The reports of several gateways as one; the calls of one account are added up. */
export function mergeDeprecations(reports: readonly Deprecation[]): readonly Deprecation[] {
  const named = reports.map(
    (one) => [`${one.environment} ${one.method} ${one.route}`, one] as const,
  );
  const isKnown = reports.every(({ accounts }) => accounts !== undefined);
  return withCallers([...new Map(named).values()], isKnown ? callsOf(reports) : undefined);
}

/** The calls in reports. */
export function callsOf(reports: readonly Deprecation[]): CallCount[] {
  return reports.flatMap(({ environment, method, route, accounts = [] }) =>
    accounts.map((one) => ({ environment, method, route, ...one })),
  );
}

/** The deprecated operations of all descriptions. */
export function deprecatedOperations({
  environments,
}: Pick<Config, "environments">): readonly Pick<Deprecation, "environment" | "method" | "route">[] {
  return environments.flatMap((one) =>
    deprecatedIn(one).map(({ method, template: route }) => {
      return { environment: one.name, method, route };
    }),
  );
}

function deprecatedIn(environment: EnvironmentConfig): readonly Operation[] {
  return operationsIn(environment).filter(({ lifecycle }) => lifecycle.deprecated);
}

function deprecationOf(
  environment: string,
  { method, template: route, lifecycle }: Operation,
  nowMs: number,
): UncalledDeprecation {
  const { sunsetMs, successor = null } = lifecycle;
  return {
    ...{ environment, method, route, successor },
    sunset: sunsetMs === undefined ? null : Math.floor(sunsetMs / 1_000),
    daysLeft: sunsetMs === undefined ? null : Math.max(0, Math.ceil((sunsetMs - nowMs) / DAY_MS)),
  };
}

/** Sorted by sunset. */
function withCallers(
  operations: readonly UncalledDeprecation[],
  calls: readonly CallCount[] | undefined,
): readonly Deprecation[] {
  const order = ({ sunset }: UncalledDeprecation) => sunset ?? Number.POSITIVE_INFINITY;
  return operations
    .map(({ accounts: _, ...one }: Deprecation) => {
      return calls === undefined ? one : { ...one, accounts: callersOf(one, calls) };
    })
    .sort((a, b) => (order(a) === order(b) ? 0 : order(a) - order(b)));
}

function callersOf(
  { environment, method, route }: UncalledDeprecation,
  calls: readonly CallCount[],
): DeprecationCaller[] {
  const callers = new Map<string, DeprecationCaller>();
  for (const call of calls) {
    if (call.environment !== environment || call.method !== method || call.route !== route)
      continue;
    const { account, requests, last } = call;
    const before = callers.get(account);
    callers.set(account, {
      account,
      requests: requests + (before?.requests ?? 0),
      last: Math.max(last, before?.last ?? 0),
    });
  }
  return [...callers.values()].sort((a, b) => b.last - a.last);
}
