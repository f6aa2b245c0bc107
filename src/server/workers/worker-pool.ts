import cluster from "node:cluster";
import { fileURLToPath } from "node:url";
import { errorMessage } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import { drainTimes } from "../../core/http/edge-limits.ts";
import type { AdminEvent } from "../../stores/quotas/admin-changes.ts";
import type { OnUnanswered } from "../../telemetry/history/diagnostics.ts";
import type { Log } from "../../telemetry/log/log.ts";
import type { ReadinessCheck, ReadinessChecks } from "../../telemetry/readiness.ts";
import type { Rollout } from "../process/config-reloader.ts";
import {
  DRAINING,
  type Gauges,
  GROWING,
  type GrowingName,
  joinGauges,
  type ProcessStatus,
} from "../process/status.ts";
import type { DiagnosticsQuery, DiagnosticsReply, WorkerStart } from "./messages.ts";
import { rollOut } from "./rollout.ts";
import { StoreAvailability } from "./store-availability.ts";
import { WorkerLosses } from "./worker-losses.ts";
import { TURN_MS, WorkerProcess } from "./worker-process.ts";

/** The program itself: TypeScript in a checkout, JavaScript in the package. */
const EXTENSION = import.meta.url.endsWith(".ts") ? "ts" : "js";
const MAIN = fileURLToPath(new URL(`../../main.${EXTENSION}`, import.meta.url));
/** Time after the drain's deadline, which each process keeps by itself. */
export const LAST_MESSAGES_MS = 2_500;

type WorkerPoolOptions = {
  readonly count: number;
  readonly log: Log;
  readonly onStatus: (status: ProcessStatus) => void;
  readonly onLines: (lines: string) => void;
  /** Called when a worker starts, which gets the result and the upstreams. Never rejects. */
  readonly handOver: (config: Config) => Promise<Omit<WorkerStart, "upstreams">>;
  /** Added to the environment of each process. */
  readonly variables: Readonly<Record<string, string>>;
};

/** The workers of a gateway. A worker that ends is replaced. */
export class WorkerPool {
  readonly #options: WorkerPoolOptions;
  #config: Config;
  /** The longest drain of all configurations that a worker may have: it may not have the last one. */
  #longestDrainMs = 0;
  /** The workers that serve or are starting. */
  readonly #members = new Set<WorkerProcess>();
  /** The workers that were replaced and have not ended yet. */
  readonly #leaving = new Set<WorkerProcess>();
  #opened = false;
  #stopping = false;
  readonly #store: StoreAvailability;
  readonly #turns: NodeJS.Timeout;
  /** Rollouts in progress. They replace workers that do not answer by themselves. */
  #rollouts = 0;
  readonly #losses = new WorkerLosses();
  /** The last values of ended processes, because counters must only grow. */
  readonly #past = new Map<GrowingName, number>();
  #restarts = 0;
  /** The upstreams as the last worker that served knew them. */
  #upstreams: Gauges["upstreams"] = [];
  urls: Readonly<Record<string, string>> = {};

  constructor(config: Config, options: WorkerPoolOptions) {
    this.#config = config;
    this.#heedDrain(config);
    this.#options = options;
    this.#store = new StoreAvailability(options.log);
    this.#turns = setInterval(() => this.#turn(), TURN_MS).unref();
    // Each worker accepts from the shared socket itself. So no connection waits in a process that
    // dies, and the supervisor delays no request (docs/decisions/workers.md).
    cluster.schedulingPolicy = cluster.SCHED_NONE;
  }

  /**
   * Resolves when all workers serve. Rejects with the message of the first that cannot; then `kill`
   * ends the others. The first starts alone, because its obstacle would stop the others too.
   */
  async open(): Promise<void> {
    const serve = () => this.#serve(this.#launch());
    await serve();
    await Promise.all(Array.from({ length: this.#options.count - 1 }, serve));
    this.#opened = true;
  }

  /** All workers that have not ended. */
  get #all(): readonly WorkerProcess[] {
    return [...this.#members, ...this.#leaving];
  }

  get #answering(): readonly WorkerProcess[] {
    return [...this.#members].filter(({ serving, answers }) => serving && answers);
  }

  get serving(): number {
    return this.#answering.length;
  }

  get restarts(): number {
    return this.#restarts;
  }

  /** The last checks of every worker that serves and answers. */
  get checks(): readonly ReadinessChecks[] {
    return this.#answering.flatMap(({ status }) => (status ? [status.checks] : []));
  }

  get gauges(): Gauges {
    const now = joinGauges(this.#statuses().map(({ gauges }) => gauges));
    // A worker that drains goes on counting, serves its last requests, and may still charge what it
    // owes.
    const left = joinGauges([...this.#leaving].flatMap(({ status }) => status?.gauges ?? []));
    const counted = [...GROWING, ...DRAINING].map((name) => {
      return [name, now[name] + left[name] + (this.#past.get(name) ?? 0)] as const;
    });
    const all: Gauges = { ...now, ...Object.fromEntries(counted) };
    return { ...all, logDropped: this.#all.reduce((sum, { lost }) => sum + lost, all.logDropped) };
  }

  /** The gateway is not ready if workers end again and again, or if none serves. */
  get health(): ReadinessCheck {
    const { count } = this.#options;
    const { loop } = this.#losses;
    if (loop !== undefined) return { ok: false, why: loop };
    const { serving } = this;
    if (serving === count) return { ok: true };
    const silent = [...this.#members].filter((worker) => worker.serving && !worker.answers);
    const told = serving === 0 ? "none serves" : `${serving} of ${count} serve`;
    const silence = silent.map(({ number }) => `worker ${number} does not answer`);
    return { ok: serving > 0, why: [told, ...silence].join("; ") };
  }

  /** Updates the status of all workers that serve or drain; waits for each at most `withinMs`. */
  async ask(withinMs: number): Promise<void> {
    await Promise.all(this.#all.map((worker) => worker.requestStatus(withinMs)));
  }

  /** The results of all workers that serve or drain; waits for each at most `withinMs`. */
  async recall(
    query: DiagnosticsQuery,
    withinMs: number,
    onUnanswered: OnUnanswered = () => {},
  ): Promise<readonly DiagnosticsReply[]> {
    const recallOf = async (worker: WorkerProcess): Promise<DiagnosticsReply> => {
      const reply = await worker.recall(query, withinMs);
      if (reply === undefined) onUnanswered(worker.number);
      return reply ?? {};
    };
    return Promise.all(this.#all.map(recallOf));
  }

  /** Makes all workers read the key records; waits at most `withinMs`. */
  async refreshKeys(withinMs: number, onUnanswered: OnUnanswered): Promise<void> {
    const refresh = async (worker: WorkerProcess) => {
      if (!(await worker.refreshKeys(withinMs))) onUnanswered(worker.number);
    };
    await Promise.all([...this.#members].map(refresh));
  }

  /** Tells all workers that decide requests of a change of an account that the supervisor has made. */
  hearChange(event: AdminEvent): void {
    for (const worker of this.#all) worker.hearChange(event);
  }

  /** Applies a configuration in all workers, and in those that start from now on (rollout.ts). */
  reload(config: Config): Promise<Rollout> {
    this.#heedDrain(config);
    this.#rollouts += 1;
    return rollOut(config, {
      members: this.#members,
      onTaken: () => {
        this.#config = config;
      },
      replace: (worker) => this.#retire(worker),
    }).finally(() => {
      this.#rollouts -= 1;
    });
  }

  /** Drains all workers. Resolves when they have ended, or were killed at the deadline. */
  async stop(deadlineMs: number): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#turns);
    setTimeout(() => this.#killAll(), deadlineMs).unref();
    for (const worker of this.#members) worker.stop();
    await this.#ended();
  }

  /** Has all workers end at once; one that has not after `withinMs` is killed. */
  stopAtOnce(withinMs: number): void {
    this.#stopping = true;
    for (const worker of this.#all) worker.stopAtOnce();
    setTimeout(() => this.#killAll(), withinMs).unref();
  }

  async kill(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#turns);
    this.#killAll();
    await this.#ended();
  }

  /** Ends workers that stand still: their connections wait, and new ones still come to them. */
  #turn(): void {
    for (const worker of [...this.#members].filter(({ serving }) => serving)) {
      if (!worker.turn() || this.#rollouts > 0) continue;
      this.#lose(worker, "it did not answer for 10 s");
      worker.kill();
    }
  }

  #heedDrain(config: Config): void {
    this.#longestDrainMs = Math.max(this.#longestDrainMs, drainTimes(config).totalMs);
  }

  /** Replaces a worker now. The old one drains, or is killed. */
  #retire(worker: WorkerProcess): void {
    this.#lose(worker, "it did not take the new configuration");
    worker.stop();
    setTimeout(() => worker.kill(), this.#longestDrainMs + LAST_MESSAGES_MS).unref();
  }

  #statuses(): readonly ProcessStatus[] {
    return [...this.#members].flatMap(({ serving, status }) => (serving && status ? [status] : []));
  }

  #launch(): WorkerProcess {
    cluster.setupPrimary({
      exec: MAIN,
      args: ["worker"],
      serialization: "advanced",
      stdio: ["ignore", "pipe", "inherit", "ipc"],
    });
    const { handOver, onLines, variables } = this.#options;
    const config = this.#config;
    const start = async () => ({ ...(await handOver(config)), upstreams: this.#upstreams });
    const worker: WorkerProcess = new WorkerProcess(cluster.fork(variables), start, {
      onStatus: (status) => this.#onStatus(worker, status),
      onStore: (change) => this.#store.note(worker.number, change),
      onLost: (why) => this.#lose(worker, why),
      onLines,
    });
    this.#members.add(worker);
    void worker.closed.then(() => this.#forget(worker));
    return worker;
  }

  #onStatus(worker: WorkerProcess, status: ProcessStatus): void {
    if (status.checks.store.ok) this.#store.reached(worker.number);
    const all = this.#statuses();
    // Not before one serves: those that start know only what they were told.
    if (all.length > 0) this.#upstreams = joinGauges(all.map(({ gauges }) => gauges)).upstreams;
    this.#options.onStatus(status);
  }

  /** Keeps the last counts of a worker that has ended. */
  #forget(worker: WorkerProcess): void {
    this.#leaving.delete(worker);
    // It may have lost the store while it drained.
    this.#noteEnd(worker);
    const last = worker.status?.gauges;
    const grow = (name: GrowingName, by = 0) => {
      this.#past.set(name, (this.#past.get(name) ?? 0) + by);
    };
    for (const name of GROWING) grow(name, last?.[name]);
    grow("logDropped", worker.lost);
    const { number, pid, killedBy } = worker;
    // The units that it owed to a store that is away go with it.
    const units = last?.chargesOwed ?? 0;
    grow("chargesLost", units);
    if (units > 0) this.#options.log.error("charges_lost", { worker: number, units });
    if (killedBy) {
      const why = `it ended with ${killedBy}`;
      this.#options.log.error("worker_lost", { worker: number, pid, why });
    }
  }

  /** The end of the gateway brings no store back that its workers had lost. */
  #noteEnd({ number }: WorkerProcess): void {
    if (!this.#stopping) this.#store.ended(number);
  }

  #lose(worker: WorkerProcess, why: string): void {
    if (!this.#members.delete(worker)) return;
    this.#leaving.add(worker);
    this.#noteEnd(worker);
    // If one cannot serve while the pool opens, the pool does not open.
    if (this.#stopping || !(this.#opened || worker.hasServed)) return;
    this.#replaceLater(why, worker);
  }

  /**
   * Reports a loss and starts another worker. Without a process the loss is that of a start that the
   * system refused, for example because no further process may run.
   */
  #replaceLater(why: string, lost?: WorkerProcess): void {
    const afterMs = this.#losses.note(why);
    this.#options.log.error("worker_lost", { worker: lost?.number, pid: lost?.pid, why, afterMs });
    setTimeout(() => {
      if (this.#stopping) return;
      this.#restarts += 1;
      try {
        // The loss of the process is reported elsewhere, together with the failed start.
        this.#serve(this.#launch()).catch(() => {});
      } catch (error) {
        this.#replaceLater(`the system cannot start it: ${errorMessage(error)}`);
      }
    }, afterMs);
  }

  /** Resolves when a new worker serves. Rejects in words if it cannot. */
  async #serve(worker: WorkerProcess): Promise<void> {
    const startMs = performance.now();
    this.urls = await worker.ready;
    const startedMs = Math.round(performance.now() - startMs);
    const { number, pid } = worker;
    this.#options.log.info("worker_serves", { worker: number, pid, startedMs });
  }

  #killAll(): void {
    for (const worker of this.#all) worker.kill();
  }

  async #ended(): Promise<void> {
    await Promise.all(this.#all.map(({ closed }) => closed));
  }
}
