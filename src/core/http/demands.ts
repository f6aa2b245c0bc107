import type { OperationMeter } from "../quota/meters.ts";
import type { Operation, RouteMatch } from "./route.ts";

/** The demands of an operation on its caller. */
export type Demands = Pick<
  Operation,
  "isPublic" | "requiresScope" | "scopes" | "cost" | "limits" | "meters" | "lifecycle"
>;

/** The demands on a request with this route. */
export function demandsOf({ operation, isPublic, cost, meters }: RouteMatch): Demands {
  if (operation !== undefined) return operation;
  const none = { requiresScope: false, scopes: [], limits: undefined };
  return { ...none, isPublic, cost, meters, lifecycle: { deprecated: false } };
}

/** In words, the first thing that an operation asks for beyond another; undefined if there is none. */
export function whatItAsksMore(
  one: Demands,
  other: Demands,
  hasPublicPlan: boolean,
): string | undefined {
  const stability = (operation: Demands) =>
    operation.requiresScope ? operation.lifecycle.stability : undefined;
  const sunset = ({ lifecycle }: Demands) => lifecycle.sunsetMs ?? Number.POSITIVE_INFINITY;
  if (hasPublicPlan && other.isPublic && !one.isPublic) return "a key";
  if (stability(one) !== undefined && stability(one) !== stability(other)) return "a scope";
  if (!areMetWith(one.scopes, other.scopes)) return "a scope";
  if (one.cost > other.cost) return `a cost of ${one.cost}`;
  if (!areLimitedAs(one, other)) return "a limit of its own";
  const metered = one.meters?.find((meter) => !isMeteredAs(meter, other));
  if (metered !== undefined) return `the meter ${metered.name}`;
  if (sunset(one) < sunset(other)) return "its sunset";
  if (!areBrownedOutAs(one, other)) return "its brownouts";
  return undefined;
}

/** Whether every key that has the scopes of the other also has those of this one. */
function areMetWith(scopes: Operation["scopes"], others: Operation["scopes"]): boolean {
  if (scopes.length === 0) return true;
  if (others.length === 0) return false;
  return others.every((has) => scopes.some((all) => all.every((one) => has.includes(one))));
}

function isMeteredAs({ name, hold, max }: OperationMeter, { meters = [] }: Demands): boolean {
  return meters.some((other) => other.name === name && other.hold >= hold && other.max >= max);
}

function areLimitedAs({ limits }: Demands, other: Demands): boolean {
  return (limits?.windows ?? []).every(({ window, limit }) => {
    return other.limits?.windows.some((one) => one.window === window && one.limit <= limit);
  });
}

function areBrownedOutAs({ lifecycle }: Demands, other: Demands): boolean {
  return (lifecycle.brownouts ?? []).every(({ fromMs, toMs }) => {
    return other.lifecycle.brownouts?.some((one) => one.fromMs <= fromMs && toMs <= one.toMs);
  });
}
