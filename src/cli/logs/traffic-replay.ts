import { formatCount } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import type { PlanSettings } from "../../config/load/build.ts";
import { type AccountRecord, effectiveLimits, isAddressName } from "../../core/keys/records.ts";
import type { Calendar } from "../../core/quota/calendar.ts";
import { holdIn } from "../../core/quota/explain.ts";
import { effectiveMeters } from "../../core/quota/meters.ts";
import {
  isDifferent,
  type ReplayDifference,
  type RequestKind,
  replay,
} from "../../core/quota/replay.ts";
import { type PastOutcome, ReplayLog } from "../../core/quota/replay-log.ts";
import {
  type Limit,
  mergeLimits,
  WINDOW_NAMES,
  type WindowName,
} from "../../core/quota/windows.ts";
import { accountId } from "../../stores/quotas/account-ref.ts";
import type { LoggedRequest } from "../../telemetry/log/logged-line.ts";
import { operationOf, operationsOf } from "./logged-operations.ts";

export type AccountReplay = ReplayDifference & {
  readonly account: string;
  readonly environment: string;
  readonly plan: string;
};

type Trial = {
  /** The plans and bans to try. */
  readonly plans: PlanSettings;
  /** Their descriptions have the windows of operations. */
  readonly environments: Config["environments"];
  readonly accounts: readonly AccountRecord[];
};

const NONE: readonly Limit[] = [];

/** The requests of a log, each as a quota request under the plans to try. */
export class TrafficReplay {
  readonly #trial: Trial;
  readonly #records: ReadonlyMap<string, AccountRecord>;
  readonly #log = new ReplayLog();
  readonly #accounts: ReplayOwner[] = [];
  readonly #numbers = new Map<string, number>();
  readonly #kinds: RequestKind[] = [];
  readonly #kindNumbers = new Map<string, number>();
  readonly #limits = new Map<string, LimitSet>();
  readonly #operations: ReadonlyMap<string, readonly Limit[]>;
  readonly #left = new Map<string, number>();
  readonly #moved = new Set<string>();
  readonly #unknown = new Set<string>();
  /** Meters that may refuse requests which are tried. */
  readonly #meters = new Set<string>();
  /** The numbers of accounts with a refused request whose key had limits of its own. */
  readonly #capped = new Set<number>();
  /** Accounts with such a request that may be admitted now. */
  readonly #eased = new Set<string>();
  #longest: WindowName | undefined;

  constructor(trial: Trial) {
    this.#trial = trial;
    this.#records = new Map(trial.accounts.map((record) => [record.id, record]));
    this.#operations = operationsOf(trial.environments);
  }

  add(line: LoggedRequest): void {
    const { env: environment, account, plan, decision } = line;
    if (decision === "none" || environment === undefined) return;
    if (account === undefined || plan === undefined) return;
    const outcome = outcomeOf(line);
    if (outcome === undefined) {
      this.#leaveOut(`answered ${line.code ?? "at once"}`);
      return;
    }
    const refuser = untriedRefuser(line);
    if (refuser !== undefined) {
      this.#leaveOut(`refused by ${refuser}, which is not tried`);
      return;
    }
    if (line.by === "local")
      this.#leaveOut("refused by a gateway without its store, and tried all the same");
    const owner = { environment, account, plan };
    const kind = this.#kindOf(line, owner);
    if (kind === undefined) return;
    const number = this.#numberOf(owner);
    if (line.windows?.some(([name]) => name.startsWith("key."))) this.#capped.add(number);
    const atMs = line.decidedAt ?? line.time - line.durationMs;
    this.#log.add(number, { atMs, kind, outcome });
  }

  /** Decides all requests again. Yields the accounts with any different outcome. */
  *tried(): Generator<AccountReplay> {
    for (const { account: number, asks } of this.#log.byAccount()) {
      const of = this.#accounts[number] as ReplayOwner;
      // Addresses have no strikes and no bans.
      const bans = isAddressName(of.account) ? undefined : this.#trial.plans.bans;
      const difference = replay(asks, this.#kinds, bans);
      if (difference.admitted > 0 && this.#capped.has(number)) this.#eased.add(of.account);
      if (isDifferent(difference)) yield { ...of, ...difference };
    }
  }

  get requests(): number {
    return this.#log.size;
  }
  get accounts(): number {
    return this.#accounts.length;
  }
  get longest(): WindowName | undefined {
    return this.#longest;
  }
  /** The calendars of its accounts. */
  get calendars(): readonly Calendar[] {
    return [...this.#limits.values()].flatMap(({ calendar }) => (calendar ? [calendar] : []));
  }

  /** The limits of tried requests that are not tried themselves, in words. Complete after `tried`. */
  untried(): string[] {
    const told: string[] = [];
    if (this.#meters.size > 0) {
      told.push(`meters are not tried, and may refuse further requests: ${someOf(this.#meters)}`);
    }
    if (this.#eased.size > 0) {
      told.push(
        `limits of one key are not tried, and may refuse requests that are told as eased: ${someOf(this.#eased)}`,
      );
    }
    return told;
  }

  /** Requests that could not be replayed, or only with changes, in words. */
  left(): string[] {
    const told = [...this.#left].map(([why, count]) => {
      return `${formatCount(count, "request")} ${count === 1 ? "was" : "were"} ${why}`;
    });
    if (this.#moved.size > 0) {
      told.push(`these accounts are on another plan now: ${someOf(this.#moved)}`);
    }
    if (this.#unknown.size > 0) {
      const has = this.#unknown.size === 1 ? "account has" : "accounts have";
      told.push(
        `${this.#unknown.size} ${has} no record, so limits of their own are not tried: ${someOf(this.#unknown)}`,
      );
    }
    return told;
  }

  #leaveOut(why: string): void {
    this.#left.set(why, (this.#left.get(why) ?? 0) + 1);
  }

  #numberOf(owner: ReplayOwner): number {
    const { account, plan } = owner;
    const name = accountId(owner);
    const known = this.#numbers.get(name);
    if (known !== undefined) {
      (this.#accounts[known] as ReplayOwner).plan = plan;
      return known;
    }
    const record = this.#records.get(account);
    if (record !== undefined && record.plan !== plan) this.#moved.add(account);
    this.#accounts.push(owner);
    this.#numbers.set(name, this.#accounts.length - 1);
    return this.#accounts.length - 1;
  }

  #kindOf(line: LoggedRequest, owner: ReplayOwner): number | undefined {
    const own = this.#limitsOf(owner);
    if (own === undefined) return undefined;
    for (const meter of Object.keys(line.meters ?? line.holds ?? {})) {
      // A plan without a meter of the operation refuses the request.
      if (!own.meters.has(meter)) this.#meters.add(`${meter} of plan ${owner.plan}`);
    }
    const { cost = 1 } = line;
    const operation = operationOf(line);
    const further = this.#operations.get(operation) ?? NONE;
    const limited = further.length === 0 ? "" : operation;
    const name = `${own.id} ${cost} ${limited}`;
    const known = this.#kindNumbers.get(name);
    if (known !== undefined) return known;
    // Observed windows refuse nothing.
    const limits = mergeLimits(own.limits, { operation: further, calendar: own.calendar });
    for (const { window } of limits) this.#lengthen(window);
    this.#kinds.push({ limits, cost });
    this.#kindNumbers.set(name, this.#kinds.length - 1);
    return this.#kinds.length - 1;
  }

  /** The windows of an account on a plan. If they are unknown, returns undefined and counts it. */
  #limitsOf({ account, plan }: ReplayOwner): LimitSet | undefined {
    const record = this.#records.get(account);
    if (record === undefined && !isAddressName(account)) this.#unknown.add(account);
    const calendar = record?.calendar;
    const hasOwn = record !== undefined && (record.limits.length > 0 || calendar !== undefined);
    const id = hasOwn ? `${plan} ${account}` : plan;
    let owned = this.#limits.get(id);
    if (owned === undefined) {
      owned = { id, calendar, ...this.#effective(plan, record?.limits ?? []) };
      this.#limits.set(id, owned);
    }
    if (owned.limits.length > 0) return owned;
    this.#leaveOut(`not tried, since plan ${plan} has no windows for them`);
    return undefined;
  }

  #effective(plan: string, own: AccountRecord["limits"]): Pick<LimitSet, "limits" | "meters"> {
    const { plans, planBounds } = this.#trial.plans;
    const windows = plans.get(plan);
    const limits = windows === undefined ? [] : effectiveLimits(windows, own);
    const meters = effectiveMeters(planBounds.get(plan)?.meters ?? [], own);
    for (const { name, limits: further } of meters) {
      const mayRefuse = limits.length > 0 && further.some(({ observed }) => !observed);
      if (mayRefuse) this.#meters.add(`${name} of plan ${plan}`);
    }
    return { limits, meters: new Set(meters.map(({ name }) => name)) };
  }

  #lengthen(window: WindowName): void {
    const longest = this.#longest === undefined ? -1 : WINDOW_NAMES.indexOf(this.#longest);
    if (WINDOW_NAMES.indexOf(window) > longest) this.#longest = window;
  }
}

/** `id` is the same for all accounts that have the windows of their plan. */
type LimitSet = {
  readonly id: string;
  readonly limits: readonly Limit[];
  /** The names of its meters. */
  readonly meters: ReadonlySet<string>;
  readonly calendar: Calendar | undefined;
};
type ReplayOwner = { readonly environment: string; readonly account: string; plan: string };

/** The first five names, and how many more there are. */
function someOf(names: ReadonlySet<string>): string {
  const more = names.size > 5 ? ` and ${names.size - 5} more` : "";
  return `${[...names].slice(0, 5).join(", ")}${more}`;
}

/** The only thing that refused a request, if it is not tried: limits of its key, or a meter. */
function untriedRefuser(line: LoggedRequest): "a limit of one key" | "a meter" | undefined {
  const { code, cost = 1, windows = [], over, holds } = line;
  if (over?.startsWith("key.")) return "a limit of one key";
  if (code !== "rate_limited") return undefined;
  const full = windows.flatMap(([name, used, limit]) => {
    const hold = holdIn(name, holds);
    if (hold !== undefined) return used + Math.max(hold, 1) > limit ? ["meter"] : [];
    if (used + cost <= limit) return [];
    return [name.startsWith("key.") ? "key" : "tried"];
  });
  if (full.length === 0 || full.includes("tried")) return undefined;
  return full.includes("meter") ? "a meter" : "a limit of one key";
}

/** Undefined if the outcome depended on something that no log records. */
function outcomeOf({ decision, code, over }: LoggedRequest): PastOutcome | undefined {
  if (decision === "admitted") return "admitted";
  if (code === "key_banned") return "banned";
  return code === "rate_limited" || over !== undefined ? "limited" : undefined;
}
