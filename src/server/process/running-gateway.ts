import type { AdminListener } from "../../admin/listener.ts";
import type { Config, ConfigChange } from "../../config/config.ts";
import type { ReloadResult } from "../../config/reload-result.ts";
import { type DrainTimes, drainTimes } from "../../core/http/edge-limits.ts";
import { listenError } from "../../gateway/listen/listen-error.ts";
import type { AdminEvent } from "../../stores/quotas/admin-changes.ts";
import type { Diagnostics, OnUnanswered } from "../../telemetry/history/diagnostics.ts";
import { EventOutbox } from "../../telemetry/history/event-outbox.ts";
import type { WebhookEvent } from "../../telemetry/log/webhook.ts";
import { type MetricSources, metricReaders } from "../../telemetry/metrics/metric-readers.ts";
import { takeCounts } from "../../telemetry/metrics/metrics-recorder.ts";
import {
  type ReadinessChecks,
  type ReadinessInputs,
  readinessChecks,
} from "../../telemetry/readiness.ts";
import { ConfigReloader, type Rollout } from "./config-reloader.ts";
import { GatewayDuties, type GatewayStores } from "./gateway-duties.ts";
import { GATEWAY_VERSION } from "./identity.ts";
import type { ServedGateway, StartOptions } from "./served-gateway.ts";
import { type ProcessSources, type ProcessStatus, readGauges } from "./status.ts";
import { storeNow } from "./store-now.ts";

/** The part of a gateway that serves requests: listeners of this process, or other processes. */
export type DataPlane = {
  readonly urls: Readonly<Record<string, string>>;
  readonly watched: ProcessSources & Pick<MetricSources, "workers">;
  /** Updates the counts of other processes, before a scrape. */
  readonly collectCounts?: () => Promise<void>;
  /** Makes other processes read the key records now. Never rejects. */
  readonly refreshWorkerKeys?: (onUnanswered: OnUnanswered) => Promise<void>;
  readonly diagnostics: Diagnostics;
  readinessInputs(): Pick<ReadinessInputs, "store" | "keys" | "upstreams" | "workers">;
  /** Applies a configuration that was checked. Never rejects. */
  applyConfig(change: ConfigChange): Promise<Rollout>;
  /**
   * Finishes requests in progress, closes, and resolves when all of them have ended. `hurry` cuts
   * that short.
   */
  drain(times: DrainTimes, hurry: AbortSignal): Promise<void>;
  /** Aborts requests in progress, in a drain or without one. */
  closeNow(): void;
};

/**
 * A gateway as other modules see it, whether one process serves or several. It runs one reload at a
 * time, one shutdown, one set of checks and one admin listener.
 */
export class RunningGateway implements ServedGateway {
  readonly #options: StartOptions;
  /** The name of the gateway, in events and metrics. */
  readonly #name: string;
  readonly #stores: GatewayStores;
  readonly #dataPlane: DataPlane;
  readonly #now: () => number;
  readonly #storeNow: () => number;
  #admin: AdminListener | undefined;
  #stopping: Promise<void> | undefined;
  readonly #hurry = new AbortController();
  readonly #reloader: ConfigReloader;
  /** Undefined in processes that serve together: their supervisor has the duties. */
  readonly #duties: GatewayDuties | undefined;
  /** The events of this process until its supervisor takes them. */
  readonly #outbox = new EventOutbox();

  constructor(config: Config, options: StartOptions, stores: GatewayStores, dataPlane: DataPlane) {
    this.#options = options;
    this.#name = options.gateway;
    this.#stores = stores;
    this.#dataPlane = dataPlane;
    this.#now = options.now ?? Date.now;
    this.#storeNow = storeNow(this.#now, stores.quotas);
    this.#reloader = new ConfigReloader(config, {
      ...{ options, stores, now: this.#now, storeNow: this.#storeNow },
      applyConfig: (change) => dataPlane.applyConfig(change),
      adopted: (adopted) => this.#adopted(adopted),
    });
    options.log.onEvent((kind, details, time) => {
      // Many at once, acknowledged already, and kept in the history.
      if (kind === "usage") return;
      this.takeEvent({ kind, time, gateway: this.#name, ...details });
    });
    if (options.worker === undefined) {
      this.#duties = new GatewayDuties({
        ...{ name: this.#name, stores, log: options.log, now: this.#now, storeNow: this.#storeNow },
        config: () => this.#config,
        checks: () => this.checks(),
        upstreams: () => dataPlane.readinessInputs().upstreams,
      });
    }
  }

  get #config(): Config {
    return this.#reloader.config;
  }

  get urls(): Readonly<Record<string, string>> {
    return this.#dataPlane.urls;
  }

  get adminUrl(): string | undefined {
    return this.#admin?.url;
  }

  /**
   * Opens the admin listener if the configuration has one, and starts the duties of the gateway.
   * Rejects in words that name the setting, with no timer left.
   */
  async openAdmin(): Promise<void> {
    const { admin } = this.#config;
    if (admin !== undefined) this.#admin = await this.#listen(admin);
    this.#duties?.start();
  }

  async #listen(admin: NonNullable<Config["admin"]>): Promise<AdminListener> {
    const { openAdmin } = await import("../../admin/listener.ts");
    const { collectCounts: gather, refreshWorkerKeys: spreadKeys = async () => {} } =
      this.#dataPlane;
    return openAdmin(admin, {
      ...this.#stores,
      config: () => this.#config,
      name: this.#name,
      checks: (environment) => this.checks(environment),
      reload: () => this.reload(),
      notReloaded: () => this.#reloader.refusals,
      metricSources: this.#watched(),
      ...(gather && { gather }),
      spreadKeys,
      diagnostics: this.#dataPlane.diagnostics,
      log: this.#options.log,
      now: this.#storeNow,
    }).catch((error: unknown) => {
      throw listenError(error, admin.listen, "admin.listen", this.#config);
    });
  }

  /** The readiness checks. If an environment is named, `upstreams` is that of the environment. */
  checks(environment?: string): ReadinessChecks {
    const observed = {
      ...this.#dataPlane.readinessInputs(),
      reloadFailed: this.#reloader.failed,
      draining: this.#stopping !== undefined,
      logTrouble: this.#options.logTrouble?.(),
    };
    return readinessChecks(observed, environment);
  }

  get diagnostics(): Diagnostics {
    return this.#dataPlane.diagnostics;
  }

  /** Takes an event of this gateway, whichever of its processes it happened in. */
  takeEvent(event: WebhookEvent): void {
    if (this.#duties === undefined) this.#outbox.add(event);
    else this.#duties.takeEvent(event);
  }

  /** The status of this process. Its counts are reset, so that each is reported once. */
  status(): ProcessStatus {
    return {
      counted: takeCounts(this.#stores.metrics),
      events: this.#outbox.take(),
      gauges: readGauges({
        ...this.#dataPlane.watched,
        eventsDropped: () => this.#outbox.dropped,
        telemetryDropped: () => this.#stores.telemetry.dropped,
      }),
      checks: this.checks(),
    };
  }

  /** Starts to export spans and metrics, as the configuration says. */
  async configureTelemetry(): Promise<void> {
    const { metrics, telemetry } = this.#stores;
    const { worker } = this.#options;
    const { collectCounts: gather } = this.#dataPlane;
    // A worker's counts are moved to the supervisor, which exports the sums of all.
    const readers = worker === undefined ? metricReaders(this.#watched(), metrics) : undefined;
    const instance = worker === undefined ? this.#name : `${this.#name}-worker-${worker}`;
    const teller = { version: GATEWAY_VERSION, instance, worker, readers, gather };
    await telemetry.configure(this.#config.telemetry, teller);
  }

  reload(isRetry = false): Promise<ReloadResult> {
    return this.#reloader.reload(isRetry);
  }

  async refreshKeys(): Promise<void> {
    await this.#stores.keys.refresh().catch(() => undefined);
  }

  hearChange(event: AdminEvent): void {
    this.#stores.quotas.hearChange(event);
  }

  stop({ atOnce } = { atOnce: false }): Promise<void> {
    if (atOnce) this.#hurry.abort();
    this.#stopping ??= this.#stopOnce();
    if (atOnce) this.#dataPlane.closeNow();
    return this.#stopping;
  }

  dropOwed(): void {
    this.#stores.quotas.dropOwed();
  }

  #watched(): MetricSources {
    const { watched } = this.#dataPlane;
    return {
      ...watched,
      version: GATEWAY_VERSION,
      gateway: this.#name,
      checks: () => this.checks(),
      eventsDropped: () => watched.eventsDropped() + (this.#duties?.eventsDropped ?? 0),
      telemetryDropped: () => watched.telemetryDropped() + this.#stores.telemetry.dropped,
    };
  }

  #adopted(config: Config): Promise<void> {
    this.#duties?.reconfigure(config);
    return this.configureTelemetry();
  }

  async #stopOnce(): Promise<void> {
    const times = drainTimes(this.#config);
    const deadlineMs = performance.now() + times.totalMs;
    await this.#dataPlane.drain(times, this.#hurry.signal);
    await this.#duties?.stop();
    const told = this.#stores.telemetry.close(
      this.#hurry.signal.aborted ? 0 : farewellMs(deadlineMs),
    );
    await this.#admin?.close();
    try {
      await this.#stores.quotas.close();
    } finally {
      await this.#stores.keys.close();
      this.#duties?.close();
      await told;
    }
  }
}

/** A collector that does not reply may delay the end of a process this long, within the drain. */
const FAREWELL_MS_MAX = 3_000;
/** If a drain took all of its time, this much is left for the export. */
const FAREWELL_MS_MIN = 500;

function farewellMs(deadlineMs: number): number {
  const leftMs = deadlineMs - performance.now();
  return Math.min(FAREWELL_MS_MAX, Math.max(FAREWELL_MS_MIN, leftMs));
}
