import { setTimeout as delay } from "node:timers/promises";
import type { Config, ConfigChange } from "../../config/config.ts";
import { deprecatedOperations } from "../../config/queries/deprecations.ts";
import { addressMatcher } from "../../core/address.ts";
import type { DrainTimes } from "../../core/http/edge-limits.ts";
import { AnonymousClients } from "../../gateway/client/anonymous-clients.ts";
import { createAuthFailureLimiter } from "../../gateway/client/auth-failure-limiter.ts";
import { ConcurrencyLimiter } from "../../gateway/client/concurrency-limiter.ts";
import { OpenHolds } from "../../gateway/client/open-holds.ts";
import { UsageReportCache } from "../../gateway/client/usage-report-cache.ts";
import { WrongEnvironmentKeys } from "../../gateway/client/wrong-environment-keys.ts";
import type { GatewayContext } from "../../gateway/exchange/environment.ts";
import { Listeners } from "../../gateway/listen/listeners.ts";
import { openKeyStore, openQuotaStore } from "../../stores/open-stores.ts";
import type { AdminEvent, HeardReset } from "../../stores/quotas/admin-changes.ts";
import type { LateBan } from "../../stores/quotas/quota-store.ts";
import { type Diagnostics, RecentRefusals } from "../../telemetry/history/diagnostics.ts";
import { RecentEvents } from "../../telemetry/history/recent-events.ts";
import type { Reporter } from "../../telemetry/log/log.ts";
import { createMetricsRecorder } from "../../telemetry/metrics/metrics-recorder.ts";
import { Telemetry } from "../../telemetry/tracing/telemetry.ts";
import { ActivityRecorder } from "../events/activity-recorder.ts";
import { OverageEvents } from "../events/overage-events.ts";
import {
  adminEventLogger,
  lateQuotaLogger,
  logBanEvent,
  logKeyElsewhere,
  logLateBan,
  logQuotaEvents,
} from "../events/quota-events.ts";
import type { Rollout } from "./config-reloader.ts";
import type { GatewayStores } from "./gateway-duties.ts";
import { type DataPlane, RunningGateway } from "./running-gateway.ts";
import type { ServedGateway, StartOptions } from "./served-gateway.ts";
import { type Gauges, keysReadiness, metricSources, type ProcessStatus } from "./status.ts";
import { storeNow } from "./store-now.ts";
import { watchTerms } from "./watch-terms.ts";

/** A store that does not reply delays the end of a gateway by at most this. */
const LAST_NOTES_MS = 1_000;

/** A gateway that is one process of several. */
export type WorkerHandle = ServedGateway & {
  /** The status of this process. Its counts are reset, so that each is reported once. */
  status(): ProcessStatus;
  readonly diagnostics: Diagnostics;
  /** Reads the key records now. Records that cannot be read stay as they are. */
  refreshKeys(): Promise<void>;
  /** See QuotaAdmin. */
  hearChange(event: AdminEvent): void;
};

/**
 * Starts a gateway in this process alone, whatever `workers` says. Each one of several starts this
 * way too. Rejects with an error in words, with nothing left open.
 */
export async function startProcess(config: Config, options: StartOptions): Promise<WorkerHandle> {
  const report: Reporter = (level, message, details) => options.log[level](message, details);
  const now = options.now ?? Date.now;
  const closers: (() => Promise<unknown>)[] = [];
  try {
    const { records: inForce, upstreams = [] } = options.takenOver ?? {};
    // The process that watches several workers writes the copy of the records for all.
    const writesCopy = options.worker === undefined;
    const keys = await openKeyStore(config, { now, report, watch: true, inForce, writesCopy });
    closers.push(() => keys.close());
    let configInForce = () => config;
    const onAdminEvent = adminEventLogger(
      options.log,
      () => configInForce(),
      () => keys.records().keys,
    );
    const { log } = options;
    const overages = new OverageEvents({
      log,
      now: () => now() + quotas.clockAheadMs(),
      markFirst: (...mark) => quotas.markFirst(...mark),
    });
    const onLateUsage = lateQuotaLogger({ log, overages }, () => configInForce());
    const metrics = createMetricsRecorder();
    const onLateBan = (ban: LateBan) => {
      metrics.banned(ban.accountRef.environment);
      logLateBan(options.log, ban);
    };
    const onCall = (tookMs: number) => metrics.storeCall(tookMs);
    const holds = new OpenHolds();
    const onReset = (reset: HeardReset) => holds.reset(reset);
    const serving = { serves: true, onAdminEvent, onReset, onLateUsage, onLateBan, onCall };
    const quotas = await openQuotaStore(config, { now, report, ...serving });
    closers.push(() => quotas.close());
    const stores = {
      keys,
      quotas,
      metrics,
      recent: new RecentEvents(),
      telemetry: new Telemetry(options.log),
    };
    const dataPlane = new GatewayProcess(config, { ...options, now, overages, holds }, stores);
    configInForce = () => dataPlane.config;
    const running = new RunningGateway(config, options, stores, dataPlane);
    closers.push(() => dataPlane.close());
    closers.push(() => stores.telemetry.close(0));
    await running.configureTelemetry();
    await dataPlane.serve(config);
    dataPlane.foundDown(upstreams.filter(({ up }) => !up));
    await running.openAdmin();
    return running;
  } catch (error) {
    for (const close of closers.reverse()) await close().catch(() => {});
    throw error;
  }
}

type ProcessOptions = StartOptions & {
  now: () => number;
  overages: OverageEvents;
  holds: OpenHolds;
};

/** The data plane of a gateway that is this process. */
class GatewayProcess implements DataPlane {
  #config: Config;
  readonly #stores: GatewayStores;
  readonly #gateway: GatewayContext;
  readonly #listeners: Listeners;
  readonly watched: DataPlane["watched"];
  readonly #activityRecorder: ActivityRecorder;
  readonly diagnostics: RecentRefusals;

  constructor(config: Config, options: ProcessOptions, stores: GatewayStores) {
    this.#config = config;
    this.#stores = stores;
    this.#activityRecorder = new ActivityRecorder({
      activityStore: stores.quotas.activity,
      keepsDays: () => this.#config.historyMs !== undefined,
      now: storeNow(options.now, stores.quotas),
      deprecated: () => deprecatedOperations(this.#config),
      storeTimeoutMs: () => this.#config.storeTimeoutMs,
    });
    this.diagnostics = new RecentRefusals({
      open: () => this.#listeners.charges,
      tellStore: () => this.#activityRecorder.flush(),
    });
    this.#gateway = gatewayOf(config, options, {
      ...stores,
      diagnostics: this.diagnostics,
      activityRecorder: this.#activityRecorder,
      inForce: () => this.#config,
    });
    this.#listeners = new Listeners(this.#gateway);
    const { logDropped = () => 0 } = options;
    this.watched = {
      ...metricSources(this.#listeners, stores),
      logDropped,
      eventsDropped: () => 0,
      telemetryDropped: () => 0,
    };
    watchTerms(stores.keys, stores.quotas);
  }

  /** The configuration in force. */
  get config(): Config {
    return this.#config;
  }

  get urls(): Readonly<Record<string, string>> {
    return this.#listeners.urls;
  }

  /** Opens the listeners of the configuration. Rejects in words if it cannot. */
  serve(config: Config): Promise<void> {
    return this.#listeners.serve(config);
  }

  /** Other processes found these upstreams down. */
  foundDown(upstreams: Gauges["upstreams"]): void {
    this.#listeners.foundDown(upstreams);
  }

  async close(): Promise<void> {
    await this.#listeners.close(0);
    await this.#activityRecorder.close();
  }

  readinessInputs(): ReturnType<DataPlane["readinessInputs"]> {
    const { quotas, keys } = this.#stores;
    const upstreams = this.#listeners.upstreams();
    return { store: quotas.health(), keys: keysReadiness(keys), upstreams };
  }

  async applyConfig({ from, to }: ConfigChange): Promise<Rollout> {
    try {
      await this.#listeners.serve(to);
    } catch (error) {
      return { applied: false, reasons: [(error as Error).message] };
    }
    if (JSON.stringify(from.unauthenticated) !== JSON.stringify(to.unauthenticated)) {
      this.#gateway.failures = createAuthFailureLimiter(to.unauthenticated);
    }
    this.#gateway.isTrusted = addressMatcher(to.trustedProxies);
    this.#gateway.style = to;
    this.#stores.quotas.reconfigure(to);
    this.#config = to;
    return { applied: true, reasons: [] };
  }

  async drain({ delayMs, drainMs }: DrainTimes, hurry: AbortSignal): Promise<void> {
    this.#gateway.draining = "announced";
    await delay(delayMs, undefined, { signal: hurry }).catch(() => {});
    this.#gateway.draining = "closed";
    await this.#listeners.close(hurry.aborted ? 0 : drainMs);
    await Promise.race([
      this.#activityRecorder.close(),
      delay(LAST_NOTES_MS, undefined, { ref: false }),
    ]);
  }

  closeNow(): void {
    this.#listeners.cut();
  }
}

type Parts = GatewayStores & {
  readonly diagnostics: RecentRefusals;
  readonly activityRecorder: ActivityRecorder;
  /** The configuration in force. */
  readonly inForce: () => Config;
};

/** The parts that all listeners of this process share. */
function gatewayOf(
  config: Config,
  { log, now: machineNow, overages, holds }: ProcessOptions,
  { keys, quotas, metrics, telemetry, diagnostics, activityRecorder, inForce }: Parts,
): GatewayContext {
  const now = storeNow(machineNow, quotas);
  return {
    keys,
    quotas,
    failures: createAuthFailureLimiter(config.unauthenticated),
    wrongEnvironmentKeys: new WrongEnvironmentKeys({
      keys,
      now,
      onFound: (key, usedIn, day) => void logKeyElsewhere({ log, quotas }, key, { usedIn, day }),
    }),
    concurrency: new ConcurrencyLimiter(),
    holds,
    anonymousClients: new AnonymousClients(),
    usageReports: new UsageReportCache(),
    isTrusted: addressMatcher(config.trustedProxies),
    style: config,
    log,
    telemetry,
    onRequest: (entry, exchange) => {
      metrics.request(entry, exchange);
      diagnostics.add(entry, exchange.caller?.id);
      activityRecorder.request(entry);
      log.request(entry);
    },
    onDeprecated: (...call) => activityRecorder.addDeprecatedCall(...call),
    deprecatedCalls: (accountRef) => activityRecorder.callsOf(accountRef),
    onTurnedAway: (why) => metrics.turnedAway(why),
    onWithoutStore: (answer) => {
      metrics.decidedWithoutStore(inForce().onStoreFailure);
      if (answer === "share") metrics.shareRefused();
    },
    onAnswer: (consumer, result, cost) => {
      if (result.earned !== undefined) {
        metrics.banned(consumer.environment);
        logBanEvent(log, consumer, result);
      }
      logQuotaEvents({ log, overages }, inForce(), consumer, result, cost);
    },
    now,
    machineNow,
    elapsed: () => performance.now(),
    draining: "no",
  };
}
