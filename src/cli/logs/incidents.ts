import { DAY_MS, dayOf } from "../../core/quota/days.ts";
import { type AccountRef, accountId, bucketOf } from "../../stores/quotas/account-ref.ts";
import { eventName, type LoggedEvent } from "../../telemetry/log/logged-line.ts";
import { ConfigHistory } from "./config-history.ts";
import { CLOCK_MS, isNear, type Period } from "./log-span.ts";
import { type LoggedProcess, LoggedProcesses } from "./logged-processes.ts";

/** `accounts`: the units by account; undefined if the line does not name them. */
type LostCharges = {
  readonly units: number;
  readonly accounts: ReadonlyMap<string, number> | undefined;
  readonly sinceMs: number;
  readonly atMs: number;
};
/** `bucket`: the part of the store that is away, or "all". */
type Outage = {
  readonly gateway: unknown;
  readonly bucket: string;
  readonly sinceMs: number;
  /** The process whose line tells it, as far as it is known. */
  readonly process: LoggedProcess | undefined;
};
/**
 * `windows`: those that the account or key got; undefined if the line does not tell. `plan`: that of
 * the account from then on.
 */
type LimitChange = {
  readonly atMs: number;
  readonly windows: readonly unknown[] | undefined;
  readonly plan: string;
};

/**
 * The log lines that explain why the store may have counted other units than the lines charged:
 * outages, lost replies, changed accounts, killed processes.
 */
export class Incidents {
  readonly processes = new LoggedProcesses();
  readonly configs = new ConfigHistory();
  readonly #uncertain: { readonly id: string; readonly units: number; readonly atMs: number }[] =
    [];
  readonly #lost: LostCharges[] = [];
  /** By the id of an account with its environment, or of a key. */
  readonly #changed = new Map<string, LimitChange[]>();
  /** By the id of an account, when gateways told that the store forgot its charges. */
  readonly #forgottenMs = new Map<string, number[]>();
  /** By the id of an account, when a decision moved its windows from the future to the present. */
  readonly #movedMs = new Map<string, number[]>();
  /** By gateway and bucket, because each bucket of a Cluster fails and recovers by itself. */
  readonly #away = new Map<string, Outage>();
  readonly #outages: (Period & Pick<Outage, "bucket">)[] = [];
  /** By gateway with a memory store, since when its state file cannot be written. */
  readonly #unwrittenMs = new Map<unknown, number>();
  /** Those that ended because the store was back; since ever where the logs lack their beginning. */
  readonly #returns: (Period & Pick<Outage, "bucket">)[] = [];
  /** When a line last told of changes by commands that no log has. */
  #droppedMs = Number.NEGATIVE_INFINITY;

  /**
   * Called with the end, the configuration and the beginning of each request, by the clock of its
   * gateway, which places reloads too.
   */
  line(atMs: number, config?: string, beganMs = atMs): void {
    // It may end after a reload, under the configuration before.
    if (config !== undefined) this.configs.line(config, beganMs);
    this.processes.line(atMs);
  }

  event(line: LoggedEvent): void {
    const atMs = Number(line.time);
    const name = eventName(line);
    const { gateway } = line;
    const stopped = this.processes.event(name, line);
    if (name === "serving") this.#take(line.config, line, atMs);
    else if (name === "config_reloaded") {
      this.#take(line.hash, line, atMs);
      this.configs.counts(line.hashBefore, line.countingBefore);
    } else if (name === "charges_uncertain") {
      for (const [id, units] of unitsByAccount(line) ?? [])
        this.#uncertain.push({ id, units, atMs });
    } else if (name === "charges_lost") this.#addLost(line, atMs);
    else if (name === "store_away") {
      for (const bucket of bucketsOf(line)) this.#beginOutage(gateway, bucket, atMs);
    } else if (name === "store_back") {
      for (const bucket of bucketsOf(line)) this.#return(gateway, bucket, atMs);
    } else if (name === "stopped") {
      this.#unwrittenMs.delete(gateway);
      this.#endOutagesOf(gateway, stopped, atMs);
    } else if (name === "state_file_unwritten") {
      this.#unwrittenMs.set(gateway, Math.min(atMs, this.#unwrittenMs.get(gateway) ?? atMs));
    } else if (name === "state_file_written") this.#unwrittenMs.delete(gateway);
    else if (name === "counter_regression") addInstant(this.#forgottenMs, line, atMs);
    else if (name === "counter_repaired" && Array.isArray(line.moved)) {
      addInstant(this.#movedMs, line, atMs);
    } else if (name === "account_changed") {
      const accountRef = { environment: String(line.env), account: String(line.account) };
      this.#addChange(accountId(accountRef), line, atMs);
    } else if (name === "caps_added") this.#addChange(String(line.key), line, atMs);
    else if (name === "changes_dropped") this.#droppedMs = Math.max(this.#droppedMs, atMs);
  }

  #take(hash: unknown, { counting }: LoggedEvent, atMs: number): void {
    this.configs.counts(hash, counting);
    this.configs.taken(hash, atMs);
  }

  #beginOutage(gateway: unknown, bucket: string, atMs: number): void {
    const part = `${gateway} ${bucket}`;
    const sinceMs = Math.min(atMs, this.#away.get(part)?.sinceMs ?? atMs);
    this.#away.set(part, { gateway, bucket, sinceMs, process: this.processes.current });
  }

  #return(gateway: unknown, bucket: string, atMs: number): void {
    const part = `${gateway} ${bucket}`;
    const fromMs = this.#away.get(part)?.sinceMs ?? Number.NEGATIVE_INFINITY;
    this.#returns.push({ bucket, fromMs, toMs: atMs });
    this.#endOutage(part, atMs);
  }

  #endOutage(part: string, toMs: number): void {
    const outage = this.#away.get(part);
    if (outage !== undefined) {
      this.#outages.push({ bucket: outage.bucket, fromMs: outage.sinceMs, toMs });
    }
    this.#away.delete(part);
  }

  /** A gateway that stops in an outage tells in `charges_lost` what it has not charged. */
  #endOutagesOf(gateway: unknown, stopped: LoggedProcess | undefined, atMs: number): void {
    for (const [part, outage] of this.#away) {
      const isIts = gateway === undefined ? outage.process === stopped : outage.gateway === gateway;
      if (isIts) this.#endOutage(part, atMs);
    }
  }

  #addChange(id: string, { newWindows, plan }: LoggedEvent, atMs: number): void {
    const windows = Array.isArray(newWindows) ? newWindows : undefined;
    const change = { atMs, windows, plan: String(plan) };
    this.#changed.set(id, [...(this.#changed.get(id) ?? []), change]);
  }

  /** Units that a line reports as possibly charged twice in the period. */
  uncertainOf(accountRef: AccountRef, period: Period): number {
    const id = accountId(accountRef);
    return this.#uncertain
      .filter((one) => one.id === id && isNear(one.atMs, period))
      .reduce((sum, { units }) => sum + units, 0);
  }

  /**
   * Whether a line tells that the store forgot charges of the account in the period. It names one
   * window, and what loses that one seldom leaves the others.
   */
  hasForgotten(accountRef: AccountRef, period: Period): boolean {
    const forgottenMs = this.#forgottenMs.get(accountId(accountRef)) ?? [];
    return forgottenMs.some((atMs) => isNear(atMs, period));
  }

  /**
   * Whether a line tells that windows of the account were moved to the present in the period, which a
   * clock that was set back does.
   */
  hasMoved(accountRef: AccountRef, period: Period): boolean {
    const movedMs = this.#movedMs.get(accountId(accountRef)) ?? [];
    return movedMs.some((atMs) => isNear(atMs, period));
  }

  /** Units that lines report as never charged, of the account or without naming one. */
  lostOf(accountRef: AccountRef, period: Period): number {
    const id = accountId(accountRef);
    return this.#lost
      .filter(({ sinceMs, atMs }) => {
        return atMs >= period.fromMs - CLOCK_MS && sinceMs < period.toMs + CLOCK_MS;
      })
      .reduce((sum, { units, accounts }) => sum + (accounts?.get(id) ?? (accounts ? 0 : units)), 0);
  }

  /**
   * Whether a change in the period may have given the account or the key of that id the window, on a
   * plan that `isOnPlan` accepts.
   */
  mayHaveBegun(
    window: string,
    id: string,
    period: Period,
    isOnPlan: (plan: string) => boolean = () => true,
  ): boolean {
    return (this.#changed.get(id) ?? []).some(({ atMs, windows, plan }) => {
      return isNear(atMs, period) && windows?.includes(window) !== false && isOnPlan(plan);
    });
  }

  /**
   * Whether a reset in the period may have no line. Changes are dropped before the line that tells
   * it, and nothing says how long before.
   */
  mayLackReset({ fromMs }: Period): boolean {
    return this.#droppedMs >= fromMs - CLOCK_MS;
  }

  /** Whether an outage goes on at the end of the logs, or of the life of its gateway. */
  get areAway(): boolean {
    return this.#away.size > 0;
  }

  /**
   * The outages of the account's bucket in which some gateway still was at the end of the logs, without
   * an end, or as it was killed, until then: what is charged later is not lost with it. Only those of
   * the period, longer by what clocks differ. See `LoggedProcesses.killed` for `alive`.
   */
  awayIn(accountRef: AccountRef, period: Period, alive: number): Period[] {
    const killed = this.processes.killed(alive);
    return [...this.#away.values()]
      .filter(({ bucket }) => isOf(accountRef, bucket))
      .map(({ gateway, sinceMs, process }) => {
        // It may have been away before it began to serve.
        const isIts = (each: LoggedProcess) => gateway !== undefined && each.gateway === gateway;
        const over = killed.find((each) => each === process || isIts(each));
        const lastMs = over?.lastMs ?? Number.POSITIVE_INFINITY;
        return { fromMs: sinceMs - CLOCK_MS, toMs: Math.max(sinceMs, lastMs) + CLOCK_MS };
      })
      .filter(({ fromMs, toMs }) => fromMs + CLOCK_MS < period.toMs && toMs >= period.fromMs);
  }

  /**
   * When the first outage of the account's bucket began that some gateway may have had at that instant;
   * else the instant.
   */
  awaySince(accountRef: AccountRef, atMs: number): number {
    const away = [...this.#away.values()].map(({ bucket, sinceMs: fromMs }) => {
      return { bucket, fromMs, toMs: Number.POSITIVE_INFINITY };
    });
    const had = [...this.#outages, ...away].filter((outage) => {
      return isOf(accountRef, outage.bucket) && isNear(atMs, outage);
    });
    return Math.min(atMs, ...had.map(({ fromMs }) => fromMs - CLOCK_MS));
  }

  /** Whether an outage of the account's bucket ended on that day for some gateway, and began before it. */
  isReturnDay({ day, ...accountRef }: AccountRef & { readonly day: number }): boolean {
    return this.#returns.some(({ bucket, fromMs, toMs }) => {
      const isOver = dayOf(toMs) === day && fromMs < day * DAY_MS + CLOCK_MS;
      return isOver && isOf(accountRef, bucket);
    });
  }

  /**
   * Lost charges were admitted since the store went away, or its file was not written, which may have
   * been on the day before. Older lines do not name the gateway: then it is the store of any.
   * Those of a killed worker are known without accounts.
   */
  #addLost(line: LoggedEvent, atMs: number): void {
    const accounts = unitsByAccount(line);
    const { gateway } = line;
    const since = [...this.#away.values()]
      .filter((outage) => gateway === undefined || outage.gateway === gateway)
      .map(({ sinceMs }) => sinceMs);
    const isUnnamed = accounts === undefined && line.worker === undefined;
    const unwrittenMs = this.#unwrittenMs.get(gateway) ?? atMs;
    const sinceMs = isUnnamed ? atMs : Math.min(atMs, unwrittenMs, ...since);
    const units = Number.isSafeInteger(line.units) ? (line.units as number) : 0;
    this.#lost.push({ units, accounts, sinceMs, atMs });
  }
}

/** Adds the instant of a line that names one account. */
function addInstant(known: Map<string, number[]>, line: LoggedEvent, atMs: number): void {
  const accountRef = { environment: String(line.environment), account: String(line.account) };
  const id = accountId(accountRef);
  known.set(id, [...(known.get(id) ?? []), atMs]);
}

/** Lines name their accounts as `production:acme 3, staging:other 1`, and some more than once. */
function unitsByAccount({ accounts }: LoggedEvent): Map<string, number> | undefined {
  if (typeof accounts !== "string") return undefined;
  const found = new Map<string, number>();
  for (const each of accounts.split(", ")) {
    const [, id, units] = /^(\S+) (\d{1,15})$/.exec(each) ?? [];
    if (id !== undefined) found.set(id, (found.get(id) ?? 0) + Number(units));
  }
  return found;
}

/** The parts of the store that a line is about: buckets of a Cluster, or "all". */
function bucketsOf({ buckets }: LoggedEvent): string[] {
  return String(buckets ?? "all").split(",");
}

/** Whether the account is in the bucket of an outage, which is "all" without a Cluster. */
function isOf(accountRef: AccountRef, bucket: string): boolean {
  return bucket === "all" || bucket === String(bucketOf(accountRef));
}
