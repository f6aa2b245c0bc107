import {
  type AccountRecord,
  effectiveLimits,
  isWorking,
  type Records,
} from "../core/keys/records.ts";
import type { Config, ConfigChange } from "./config.ts";

/** Accounts that the plans of a configuration would leave without limits. */
export function stranded({ plans }: Pick<Config, "plans">, accounts: readonly AccountRecord[]) {
  /** Whether the plan limits each account by itself: 100,000 accounts have a few plans. */
  const limiting = new Map(
    [...plans].map(([name, plan]) => [name, effectiveLimits(plan, []).length > 0]),
  );
  return accounts.filter(({ plan, limits: own }) => {
    if (limiting.get(plan)) return false;
    const limits = plans.get(plan);
    return limits === undefined || effectiveLimits(limits, own).length === 0;
  });
}

/** Whether a plan is dropped, or has no limits of its own any more: accounts may be left without. */
export function takesPlansAway({ from, to }: ConfigChange): boolean {
  return [...from.plans].some(([name, before]) => {
    const after = to.plans.get(name);
    if (after === undefined) return true;
    return effectiveLimits(after, []).length === 0 && effectiveLimits(before, []).length > 0;
  });
}

/**
 * Why a change of records is refused that leaves an account without limits, because it was judged by
 * the plans before a reload, or that issues a key for one. An account that is without them already
 * may be changed in other ways, and one that an import adds may have been without them in the file
 * (docs/reference/keys.md#transfer).
 */
export function planMissing(config: Config, before: Records, after: Records): string | undefined {
  return (
    movedWithoutLimits(config, before.accounts, after.accounts) ??
    issuedWithoutLimits(config, before, after)
  );
}

/**
 * The keys that are new and neither imported nor the successors of others: an import takes in what it
 * is given, and a rotation may have to end a key that is known to others. New keys are at the end.
 */
function issuedKeys(before: Records, after: Records) {
  const added = after.keys.slice(before.keys.length).filter((key) => key.importId === undefined);
  if (added.length === 0) return added;
  const successors = new Set(after.keys.map(({ replacedBy }) => replacedBy));
  return added.filter(({ id }) => !successors.has(id));
}

function issuedWithoutLimits(config: Config, before: Records, after: Records): string | undefined {
  const owners = new Set(issuedKeys(before, after).map(({ account }) => account));
  if (owners.size === 0) return undefined;
  const issuedTo = after.accounts.filter(({ id }) => owners.has(id));
  const [account] = stranded(config, issuedTo);
  return (
    account &&
    `Cannot issue a key of the account ${account.id}: no limits are configured for its plan ${account.plan}; add it, or move the account first with \`accounts set ${account.id} --plan OTHER\``
  );
}

function movedWithoutLimits(
  config: Config,
  before: Records["accounts"],
  after: Records["accounts"],
): string | undefined {
  const changed = after.filter((account, i) => account !== before[i]);
  const without = stranded(config, changed);
  if (without.length === 0) return undefined;
  const plans = new Map(before.map(({ id, plan }) => [id, plan]));
  const moved = without.find(({ id, plan, importId }) => {
    return plans.has(id) ? plans.get(id) !== plan : importId === undefined;
  });
  return (
    moved &&
    `Cannot put the account ${moved.id} on plan ${moved.plan}: a reload has taken its limits away`
  );
}

/**
 * A plan of an account with a working key cannot be removed, nor leave that account without limits.
 * An account that is without limits already loses nothing: its plan may be that of another gateway
 * in front of the same records.
 */
export function planChanges({ from, to }: ConfigChange, records: Records, nowMs: number): string[] {
  const { keys, accounts } = records;
  const without = stranded(to, accounts);
  if (without.length === 0) return [];
  const already = new Set(stranded(from, accounts));
  const suspects = without.filter((account) => !already.has(account));
  const owners = withWorkingKeys(suspects, keys, nowMs);
  return [...Map.groupBy(owners, ({ plan }) => plan)].map(([plan, of]) =>
    to.plans.has(plan)
      ? `Cannot make the plan ${plan} custom by a reload: ${named(of)} without limits of their own; give them some first, with \`accounts set ID --limit WINDOW=N\``
      : `Cannot drop the plan ${plan} by a reload: ${named(of)}; move them first, with \`accounts set --on ${plan} --plan OTHER\``,
  );
}

/** The accounts that have a key of `keys` that works. */
export function withWorkingKeys(
  accounts: readonly AccountRecord[],
  keys: Records["keys"],
  nowMs: number,
) {
  if (accounts.length === 0) return [];
  const working = new Set<string>();
  for (const key of keys) if (isWorking(key, nowMs)) working.add(key.account);
  return accounts.filter(({ id }) => working.has(id));
}

/**
 * The causes for which accounts with working keys have no service, each with one sentence: plans,
 * for which a reload is refused and a restart is not, and environments, which another gateway with
 * the same records may serve.
 */
export function unserved(config: Config, records: Records, nowMs: number): readonly Unserved[] {
  return [
    ...plansWithoutLimits(config, records, nowMs),
    ...missingEnvironments(config, records, nowMs),
  ];
}

/** `tell` makes the sentence about all of these accounts, or some of them. */
type Unserved = {
  readonly what: string;
  readonly accounts: Records["accounts"];
  readonly tell: (some: Records["accounts"]) => string;
};

function plansWithoutLimits(config: Config, records: Records, nowMs: number): Unserved[] {
  const without = stranded(config, records.accounts);
  const owners = withWorkingKeys(without, records.keys, nowMs);
  return [...Map.groupBy(owners, ({ plan }) => plan)].map(([plan, accounts]) => {
    const tell = (of: Records["accounts"]) =>
      config.plans.has(plan)
        ? `Requests are answered 503 plan_missing: the plan ${plan} is custom, and ${named(of)} without limits of their own; give them some, with \`accounts set ID --limit WINDOW=N\``
        : `Requests are answered 503 plan_missing: there is no plan ${plan}, and ${named(of)}; add it, or move them with \`accounts set --on ${plan} --plan OTHER\``;
    return { what: `plan ${plan}`, accounts, tell };
  });
}

function missingEnvironments(config: Config, records: Records, nowMs: number): Unserved[] {
  const served = new Set(config.environments.map(({ name }) => name));
  const without = records.accounts.filter(({ environment }) => !served.has(environment));
  const owners = withWorkingKeys(without, records.keys, nowMs);
  return [...Map.groupBy(owners, ({ environment }) => environment)].map(
    ([environment, accounts]) => {
      const tell = (of: Records["accounts"]) =>
        `There is no environment ${environment}, and ${named(of)}: requests with their keys are answered 401 key_invalid, unless another gateway with the same records serves it`;
      return { what: `environment ${environment}`, accounts, tell };
    },
  );
}

/**
 * Why a command fails that has put accounts on a plan of its own file, or has issued a key of theirs
 * or let one work again: `withoutLimits` are the ids of the accounts that the running gateway has no limits
 * for. Accounts on a plan that the file lacks as well are not new to the command, and another gateway
 * may serve the keys of an environment that the file lacks.
 */
export function unservedPlans(
  { plans, environments }: Config,
  [before, after]: readonly [Records, Records],
  { withoutLimits, nowMs }: { readonly withoutLimits: readonly string[]; readonly nowMs: number },
): string[] {
  if (withoutLimits.length === 0) return [];
  const unserved = new Set(withoutLimits);
  const known = new Map(before.accounts.map(({ id, plan }) => [id, plan]));
  const served = new Set(environments.map(({ name }) => name));
  const working = ({ keys }: Records) =>
    keys.filter((key) => unserved.has(key.account) && isWorking(key, nowMs));
  const worked = new Set(working(before).map(({ id }) => id));
  const issued = new Set(issuedKeys(before, after));
  const existed = new Set(before.keys.map(({ id }) => id));
  const added = working(after).filter((key) => {
    if (worked.has(key.id) || !served.has(key.environment)) return false;
    return existed.has(key.id) || issued.has(key);
  });
  const gained = new Set(added.map(({ account }) => account));
  const put = after.accounts.filter(({ id, plan }) => {
    return gained.has(id) || (unserved.has(id) && plans.has(plan) && known.get(id) !== plan);
  });
  return [...Map.groupBy(put, ({ plan }) => plan)].map(
    ([plan, of]) =>
      `Requests are answered 503 plan_missing: the gateway has no limits of the plan ${plan}, and ${named(of)}; \`reload\` the gateway with this plan, or move them with \`accounts set --on ${plan} --plan OTHER\``,
  );
}

/**
 * Names the accounts that a list of usage is without, and what brings them into it; undefined without
 * any. Those without a working key are left out, because a reload may drop their plan for good, and
 * those of an environment that another gateway may serve. It has no comma, because commas separate
 * what the admin API names as missing, and no name of a plan, because a field holds ASCII alone.
 */
export function describeUncounted(
  config: Pick<Config, "plans" | "environments">,
  { keys, accounts }: Records,
  nowMs: number,
): string | undefined {
  const served = new Set(config.environments.map(({ name }) => name));
  const there = accounts.filter(({ environment }) => served.has(environment));
  const without = withWorkingKeys(stranded(config, there), keys, nowMs);
  if (without.length === 0) return undefined;
  const { ids, more } = firstOf(without);
  const what = without.length === 1 ? "account" : "accounts";
  return `${what} ${ids.join(" ")}${more}: no limits are configured for the plan; add it or give another with \`accounts set ID --plan OTHER\``;
}

/** A reason is one line. If it concerns many accounts, it names the first ones. */
const NAMED_MAX = 20;

/** The accounts by name, with `what` they have. */
export function named(accounts: readonly AccountRecord[], what = "it"): string {
  const { ids, more } = firstOf(accounts);
  return accounts.length === 1
    ? `the account ${ids} has ${what}`
    : `the accounts ${ids.join(", ")}${more} have ${what}`;
}

function firstOf(accounts: readonly AccountRecord[]) {
  const { length } = accounts;
  const more = length > NAMED_MAX ? ` and ${length - NAMED_MAX} more` : "";
  return { ids: accounts.slice(0, NAMED_MAX).map(({ id }) => id), more };
}
