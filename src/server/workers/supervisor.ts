import type { Config, ConfigChange } from "../../config/config.ts";
import type { DrainTimes } from "../../core/http/edge-limits.ts";
import { openKeyStore, openQuotaStore } from "../../stores/open-stores.ts";
import type { Diagnostics, OnUnanswered } from "../../telemetry/history/diagnostics.ts";
import { RecentEvents } from "../../telemetry/history/recent-events.ts";
import { mostRefused } from "../../telemetry/history/refused-accounts.ts";
import type { Reporter } from "../../telemetry/log/log.ts";
import { addCounts, createMetricsRecorder } from "../../telemetry/metrics/metrics-recorder.ts";
import { Telemetry } from "../../telemetry/tracing/telemetry.ts";
import { type CompileCache, openCompileCache } from "../process/compiled-code.ts";
import type { Rollout } from "../process/config-reloader.ts";
import type { GatewayStores } from "../process/gateway-duties.ts";
import { STOP_AT_ONCE_MS } from "../process/process-context.ts";
import { type DataPlane, RunningGateway } from "../process/running-gateway.ts";
import type { ServedGateway, StartOptions } from "../process/served-gateway.ts";
import { keysReadiness, sourcesOf, worstReadinessCheck } from "../process/status.ts";
import { Handover } from "./handover.ts";
import { LAST_MESSAGES_MS, WorkerPool } from "./worker-pool.ts";

/** A scrape waits this long for a worker's reply, then uses its last status. */
const ASK_MS_MAX = 500;
/** Records that are not read by then are read on the timer, within a second. */
const REFRESH_MS_MAX = 1_500;

/** The last part of the time of a second signal: by then workers that are stuck are killed. */
const LAST_STEPS_MS = 100;

type WorkerSet = {
  readonly pool: WorkerPool;
  readonly cache: CompileCache;
  readonly handover: Handover;
};

/**
 * A gateway of several processes. This process serves no request. It starts the workers, replaces
 * those that end, reads the configuration for all, and serves the admin listener. Rejects like
 * `start`, with no process left behind.
 */
export async function startWorkers(
  config: Config,
  count: number,
  options: StartOptions,
): Promise<ServedGateway> {
  const report: Reporter = (level, message, details) => options.log[level](message, details);
  const now = options.now ?? Date.now;
  const closers: (() => Promise<unknown>)[] = [];
  try {
    const keys = await openKeyStore(config, { now, report, watch: true });
    closers.push(() => keys.close());
    // This process makes no decisions. It reads accounts and lifts bans, and the other gateways do
    // not count it as a gateway (docs/reference/store.md#shares). The changes of commands are told by
    // the workers, but those of its admin listener by itself, and to the workers at once.
    const quotas = await openQuotaStore(config, {
      ...{ now, report, logsOwnChanges: true },
      onOwnChange: (event) => pool.hearChange(event),
    });
    closers.push(() => quotas.close());
    const metrics = createMetricsRecorder();
    const recent = new RecentEvents();
    const cache = await openCompileCache();
    closers.push(() => cache.close());
    const handover = new Handover(config, { gateway: options.gateway, keys, quotas });
    closers.push(async () => handover.close());
    const pool = new WorkerPool(config, {
      count,
      variables: cache.variables,
      log: options.log,
      onStatus: ({ counted, events }) => {
        addCounts(metrics, counted);
        for (const event of events) running.takeEvent(event);
      },
      onLines: (lines) => options.relay?.(lines),
      handOver: (given) => handover.of(given),
    });
    closers.push(() => pool.kill());
    const telemetry = new Telemetry(options.log);
    closers.push(() => telemetry.close(0));
    const stores = { keys, quotas, metrics, recent, telemetry };
    const dataPlane = new Supervisor(options, stores, { pool, cache, handover });
    const running = new RunningGateway(config, options, stores, dataPlane);
    await pool.open();
    await running.configureTelemetry();
    await running.openAdmin();
    return running;
  } catch (error) {
    for (const close of closers.reverse()) await close().catch(() => {});
    throw error;
  }
}

/** The data plane of a gateway of several processes: a pool of workers. */
class Supervisor implements DataPlane {
  readonly #stores: GatewayStores;
  readonly #workers: WorkerSet;
  readonly watched: DataPlane["watched"];

  constructor({ logDropped = () => 0 }: StartOptions, stores: GatewayStores, workers: WorkerSet) {
    const { pool } = workers;
    this.#stores = stores;
    this.#workers = workers;
    this.watched = {
      ...sourcesOf(() => pool.gauges),
      keys: () => stores.keys.records().keys.length,
      accounts: () => stores.keys.records().accounts.length,
      // This process reads the same records as each worker: their sum would count one event often.
      keysOlder: () => stores.keys.troubles().older,
      storeCommands: () => pool.gauges.storeCommands + stores.quotas.commandCount(),
      logDropped: () => pool.gauges.logDropped + logDropped(),
      workers: () => ({ serving: pool.serving, restarts: pool.restarts }),
    };
  }

  get urls(): Readonly<Record<string, string>> {
    return this.#workers.pool.urls;
  }

  collectCounts = (): Promise<void> => this.#workers.pool.ask(ASK_MS_MAX);

  refreshWorkerKeys = (onUnanswered: OnUnanswered): Promise<void> =>
    this.#workers.pool.refreshKeys(REFRESH_MS_MAX, onUnanswered);

  /** Each worker remembers its own refusals and bans. */
  readonly diagnostics: Diagnostics = {
    refusal: async (id, onUnanswered) => {
      const answers = await this.#workers.pool.recall({ refusal: id }, ASK_MS_MAX, onUnanswered);
      return answers.find(({ refusal }) => refusal !== undefined)?.refusal;
    },
    openCharges: async (onUnanswered) => {
      const answers = await this.#workers.pool.recall({ open: true }, ASK_MS_MAX, onUnanswered);
      return answers.flatMap(({ open = [] }) => open);
    },
    refused: async () => {
      const answers = await this.#workers.pool.recall({ refused: true }, ASK_MS_MAX);
      return mostRefused(answers.flatMap(({ refused = [] }) => refused));
    },
    flushToStore: async (onUnanswered) => {
      await this.#workers.pool.recall({ tellStore: true }, ASK_MS_MAX, onUnanswered);
    },
  };

  /**
   * The worst of all workers; if none of them serves, this process's own. Records that this process
   * cannot read are those that workers cannot read either when they start.
   */
  readinessInputs(): ReturnType<DataPlane["readinessInputs"]> {
    const { checks, gauges, health } = this.#workers.pool;
    const keys = keysReadiness(this.#stores.keys);
    const worst = worstReadinessCheck(checks, "keys", keys);
    return {
      store: worstReadinessCheck(checks, "store", this.#stores.quotas.health()),
      keys: worst.ok ? keys : { ...keys, ok: false, lost: keys.lost ?? worst.why },
      upstreams: gauges.upstreams,
      workers: health,
    };
  }

  /** The configuration was checked in this process, so no mistake reaches the workers. */
  async applyConfig({ to }: ConfigChange): Promise<Rollout> {
    const rollout = await this.#workers.pool.reload(to);
    if (rollout.applied) {
      this.#workers.handover.adopt(to);
      this.#stores.quotas.reconfigure(to);
    }
    return rollout;
  }

  /** Each worker keeps the delay and the drain by itself. */
  async drain({ totalMs }: DrainTimes): Promise<void> {
    await this.#workers.pool.stop(totalMs + LAST_MESSAGES_MS);
    this.#workers.handover.close();
    await this.#workers.cache.close();
  }

  /** Kills the workers soon, because a worker that is stuck would outlive this process. */
  closeNow(): void {
    this.#workers.pool.stopAtOnce(STOP_AT_ONCE_MS - LAST_STEPS_MS);
  }
}
