import { DAY_MS, dayOf } from "../../core/quota/days.ts";
import { type AccountRef, accountId, bucketOf } from "../../stores/quotas/account-ref.ts";
import type { LoggedEvent } from "../../telemetry/log/logged-line.ts";
import type { HasReplaced } from "./balance.ts";
import type { Period } from "./log-span.ts";

/** A process that was killed may have served this long before and after its lines. */
const UNLOGGED_MS = 65_000;
/** The clocks of gateways and stores differ by less than this. */
const CLOCK_MS = 10_000;

/** Lines of requests have so much of the hash of the configuration. */
const CONFIG_DIGITS = 8;

/** A process that starts writes these before it serves. */
const BEFORE_SERVING = new Set<unknown>(["config_warning", "connections_limited", "worker_serves"]);

/** `accounts`: the units by account; undefined if the line does not name them. */
type LostCharges = {
  readonly units: number;
  readonly accounts: ReadonlyMap<string, number> | undefined;
  readonly sinceMs: number;
  readonly atMs: number;
};
/** The first and the last instant of a process in the logs. */
type Served = { readonly firstMs: number; readonly lastMs: number };
/** `gateway` is its name, which lines of older versions lack. */
type Run = Served & { readonly gateway: unknown; lastMs: number };
/** `bucket`: the part of the store that is away, or "all". */
type Outage = {
  readonly gateway: unknown;
  readonly bucket: string;
  readonly sinceMs: number;
  readonly run: Run | undefined;
};
/** `windows`: those that the account or key got; undefined if the line does not tell. */
type LimitChange = { readonly atMs: number; readonly windows: readonly unknown[] | undefined };

/**
 * The log lines that explain why the store may have counted other units than the lines charged:
 * outages, lost replies, changed accounts, killed processes.
 */
export class Incidents {
  readonly #uncertain: { readonly id: string; readonly units: number; readonly atMs: number }[] =
    [];
  readonly #lost: LostCharges[] = [];
  /** By the id of an account with its environment, or of a key. */
  readonly #changed = new Map<string, LimitChange[]>();
  /** By gateway and bucket, because each bucket of a Cluster fails and recovers by itself. */
  readonly #away = new Map<string, Outage>();
  readonly #outages: (Period & Pick<Outage, "bucket">)[] = [];
  /** By gateway with a memory store, since when its state file cannot be written. */
  readonly #unwrittenMs = new Map<unknown, number>();
  /** Those that ended because the store was back; since ever where the logs lack their beginning. */
  readonly #returns: (Period & Pick<Outage, "bucket">)[] = [];
  readonly #running: Run[] = [];
  /** The process whose lines are read, as far as it is known. */
  #run: Run | undefined;
  /** The names of the gateways that run, as far as they are known. */
  #names: ReadonlySet<unknown> = new Set();
  /** When each worker began to serve. */
  readonly #workersMs = new Map<string, number>();
  readonly #workersLost: Served[] = [];
  /** By configuration: the first line of a request, and each start or reload that took it. */
  readonly #firstLineMs = new Map<string, number>();
  readonly #takenMs = new Map<string, number[]>();
  #config: { readonly name: string; readonly atMs: number } | undefined;

  /** Called with the instant and the configuration of each request. */
  line(atMs: number, config?: string): void {
    if (
      config !== undefined &&
      atMs < (this.#firstLineMs.get(config) ?? Number.POSITIVE_INFINITY)
    ) {
      this.#firstLineMs.set(config, atMs);
    }
    if (this.#run !== undefined && atMs > this.#run.lastMs) this.#run.lastMs = atMs;
  }

  event(line: LoggedEvent): void {
    const atMs = Number(line.time);
    const name = line.msg === "event" ? String(line.kind) : line.msg;
    const buckets = String(line.buckets ?? "all").split(",");
    const { gateway } = line;
    if (gateway !== undefined) this.#run = this.#runOf(gateway);
    // The lines of a start or an end are no signs of life of the process that served before.
    if (name === "serving") {
      this.#run = { gateway, firstMs: atMs, lastMs: atMs };
      this.#running.push(this.#run);
      this.#addConfig(line.config, atMs);
    } else if (name === "stopped") {
      this.#stop(gateway, atMs);
    } else if (!BEFORE_SERVING.has(name)) this.line(atMs);
    const worker = `${line.worker} ${line.pid}`;
    if (name === "worker_serves") this.#workersMs.set(worker, atMs);
    // Its last lines were not written, unless it was replaced and drains.
    if (name === "worker_lost" && /^it ended/.test(String(line.why))) {
      const firstMs = this.#workersMs.get(worker) ?? atMs - UNLOGGED_MS;
      this.#workersLost.push({ firstMs, lastMs: atMs });
    }
    if (name === "state_file_unwritten") {
      this.#unwrittenMs.set(gateway, Math.min(atMs, this.#unwrittenMs.get(gateway) ?? atMs));
    }
    if (name === "state_file_written" || name === "stopped") this.#unwrittenMs.delete(gateway);
    if (name === "config_reloaded") this.#addConfig(line.hash, atMs);
    else if (name === "charges_uncertain") this.#addUncertain(line, atMs);
    else if (name === "charges_lost") this.#addLost(line, atMs);
    else if (name === "store_away") {
      for (const bucket of buckets) {
        const part = `${gateway} ${bucket}`;
        const sinceMs = Math.min(atMs, this.#away.get(part)?.sinceMs ?? atMs);
        this.#away.set(part, { gateway, bucket, sinceMs, run: this.#run });
      }
    } else if (name === "store_back") {
      for (const bucket of buckets) {
        const part = `${gateway} ${bucket}`;
        const fromMs = this.#away.get(part)?.sinceMs ?? Number.NEGATIVE_INFINITY;
        this.#returns.push({ bucket, fromMs, toMs: atMs });
        this.#endOutage(part, atMs);
      }
    } else if (name === "account_changed") {
      const accountRef = { environment: String(line.env), account: String(line.account) };
      this.#addChange(accountId(accountRef), line, atMs);
    } else if (name === "caps_added") this.#addChange(String(line.key), line, atMs);
  }

  #endOutage(part: string, toMs: number): void {
    const outage = this.#away.get(part);
    if (outage !== undefined) {
      this.#outages.push({ bucket: outage.bucket, fromMs: outage.sinceMs, toMs });
    }
    this.#away.delete(part);
  }

  /** Older lines `serving` name no gateway: then it is the process that began to serve last. */
  #runOf(gateway: unknown): Run | undefined {
    const last = this.#running.at(-1);
    const own = this.#running.findLast((run) => run.gateway === gateway);
    return own ?? (last?.gateway === undefined ? last : undefined);
  }

  /** A gateway that stops in an outage tells in `charges_lost` what it has not charged. */
  #stop(gateway: unknown, atMs: number): void {
    const index = this.#running.findLastIndex((run) => run.gateway === gateway);
    const [stopped] = index < 0 ? [] : this.#running.splice(index, 1);
    for (const [part, outage] of this.#away) {
      const isIts = gateway === undefined ? outage.run === stopped : outage.gateway === gateway;
      if (isIts) this.#endOutage(part, atMs);
    }
    this.#run = this.#running.at(-1);
  }

  #addChange(id: string, { newWindows }: LoggedEvent, atMs: number): void {
    const windows = Array.isArray(newWindows) ? newWindows : undefined;
    this.#changed.set(id, [...(this.#changed.get(id) ?? []), { atMs, windows }]);
  }

  #addConfig(hash: unknown, atMs: number): void {
    const name = String(hash).slice(0, CONFIG_DIGITS);
    this.#takenMs.set(name, [...(this.#takenMs.get(name) ?? []), atMs]);
    if (this.#config !== undefined && this.#config.atMs > atMs) return;
    this.#config = { name, atMs };
  }

  /**
   * Returns a function that says whether a gateway took the configuration `name` in the period, after
   * a line of `other` and before the first line of `name` at `firstMs`.
   */
  replacementsIn(period: Period): HasReplaced {
    return (name, other, firstMs) => {
      const otherMs = this.#firstLineMs.get(other) ?? Number.POSITIVE_INFINITY;
      return (this.#takenMs.get(name) ?? []).some((atMs) => {
        return isIn(atMs, period) && atMs >= otherMs && atMs <= firstMs + CLOCK_MS;
      });
    };
  }

  /** The configuration that came into force last, if that was in the period. */
  configIn(period: Period): { readonly name: string; readonly atMs: number } | undefined {
    const last = this.#config;
    return last !== undefined && isIn(last.atMs, period) ? last : undefined;
  }

  /** Units that a line reports as possibly charged twice in the period. */
  uncertainOf(accountRef: AccountRef, period: Period): number {
    const id = accountId(accountRef);
    return this.#uncertain
      .filter((one) => one.id === id && isIn(one.atMs, period))
      .reduce((sum, { units }) => sum + units, 0);
  }

  /**
   * Units that lines report as never charged: those of the account, and of all accounts where a line
   * names none.
   */
  lostOf(accountRef: AccountRef, period: Period): number {
    const id = accountId(accountRef);
    return this.#lost
      .filter(({ sinceMs, atMs }) => {
        return atMs >= period.fromMs - CLOCK_MS && sinceMs < period.toMs + CLOCK_MS;
      })
      .reduce((sum, { units, accounts }) => sum + (accounts?.get(id) ?? (accounts ? 0 : units)), 0);
  }

  /** Whether a change in the period may have given the account or the key of that id the window. */
  mayHaveBegun(window: string, id: string, period: Period): boolean {
    return (this.#changed.get(id) ?? []).some(({ atMs, windows }) => {
      return isIn(atMs, period) && windows?.includes(window) !== false;
    });
  }

  /** Whether an outage goes on at the end of the logs, or of the life of its gateway. */
  get areAway(): boolean {
    return this.#away.size > 0;
  }

  /** Whether some gateway was still in an outage as `awayFrom` has it. */
  isAway(accountRef: AccountRef, period: Period, alive: number): boolean {
    return this.awayFrom(accountRef, period, alive) !== undefined;
  }

  /**
   * When the first outage of the account's bucket began in which some gateway still was at the end of
   * the logs, or of its own life: a process that was killed lacks no charges of later periods.
   * Undefined if there is none. See `killedIn` for `alive`.
   */
  awayFrom(accountRef: AccountRef, period: Period, alive: number): number | undefined {
    const killed = this.#killed(alive);
    const away = [...this.#away.values()].filter(({ gateway, bucket, sinceMs, run }) => {
      if (sinceMs >= period.toMs || !isOf(accountRef, bucket)) return false;
      // It may have been away before it began to serve.
      const isIts = (each: Run) => gateway !== undefined && each.gateway === gateway;
      const over = killed.find((each) => each === run || isIts(each));
      return over === undefined || over.lastMs + CLOCK_MS >= period.fromMs;
    });
    if (away.length === 0) return undefined;
    return Math.min(...away.map(({ sinceMs }) => sinceMs)) - CLOCK_MS;
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
      return isOf(accountRef, outage.bucket) && isIn(atMs, outage);
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

  /** Called with the names of the gateways that run, once all lines are read. */
  setRunning(names: readonly string[]): void {
    this.#names = new Set(names);
  }

  /**
   * The last instant of a process that ended without a last line and may have served in the period;
   * undefined if there is none. `alive` processes still run: those of `setRunning`, and if these are
   * fewer, or for lines without a name, the latest of those without a last line.
   */
  killedIn(period: Period, alive: number): number | undefined {
    return lastServed(this.#killed(alive), period);
  }

  #killed(alive: number): readonly Run[] {
    const rest = this.#running.filter(({ gateway }) => !this.#names.has(gateway));
    const isListed = this.#names.size >= alive;
    const mayRun = rest
      .filter(({ gateway }) => gateway === undefined || !isListed)
      .toSorted((a, b) => b.lastMs - a.lastMs);
    const others = Math.max(0, alive - (this.#running.length - rest.length));
    const running = new Set(mayRun.slice(0, others));
    return rest.filter((run) => !running.has(run)).toSorted((a, b) => a.lastMs - b.lastMs);
  }

  /** The end of a worker without its last lines that may have served in the period. */
  workerLostIn(period: Period): number | undefined {
    return lastServed(this.#workersLost, period);
  }

  #addUncertain(line: LoggedEvent, atMs: number): void {
    for (const [id, units] of unitsByAccount(line) ?? []) this.#uncertain.push({ id, units, atMs });
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
    this.#lost.push({ units: unitsOf(line), accounts, sinceMs, atMs });
  }
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

/**
 * The end of the first process that may have charged requests of the period without a line. A tunnel
 * may have been open since the process began to serve.
 */
function lastServed(served: readonly Served[], { fromMs, toMs }: Period): number | undefined {
  return served.find(({ firstMs, lastMs }) => {
    return lastMs + UNLOGGED_MS >= fromMs && firstMs - CLOCK_MS < toMs;
  })?.lastMs;
}

function unitsOf({ units }: LoggedEvent): number {
  return Number.isSafeInteger(units) ? (units as number) : 0;
}

/** Whether the account is in the bucket of an outage, which is "all" without a Cluster. */
function isOf(accountRef: AccountRef, bucket: string): boolean {
  return bucket === "all" || bucket === String(bucketOf(accountRef));
}

function isIn(atMs: number, { fromMs, toMs }: Period): boolean {
  return atMs >= fromMs - CLOCK_MS && atMs < toMs + CLOCK_MS;
}
