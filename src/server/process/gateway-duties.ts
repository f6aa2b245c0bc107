import type { Config } from "../../config/config.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import type { QuotaStore } from "../../stores/quotas/quota-store.ts";
import type { RecentEvents } from "../../telemetry/history/recent-events.ts";
import type { Log } from "../../telemetry/log/log.ts";
import { Webhook, type WebhookEvent } from "../../telemetry/log/webhook.ts";
import type { MetricsRecorder } from "../../telemetry/metrics/metrics-recorder.ts";
import type { ReadinessChecks, ReadinessInputs } from "../../telemetry/readiness.ts";
import type { Telemetry } from "../../telemetry/tracing/telemetry.ts";
import { RecordChangeWatcher } from "../events/record-change-watcher.ts";
import { watchUpstreamsAndSunsets } from "../events/upstream-watcher.ts";
import { UsageEventSender } from "../events/usage-event-sender.ts";
import { GatewayAnnouncer } from "./gateway-announcer.ts";
import { RecordWarnings } from "./record-warnings.ts";

export type GatewayStores = {
  readonly keys: KeyStore;
  readonly quotas: QuotaStore;
  readonly metrics: MetricsRecorder;
  readonly recent: RecentEvents;
  readonly telemetry: Telemetry;
};

type DutySources = {
  /** The name of the gateway, which all of its processes have. */
  readonly name: string;
  readonly stores: GatewayStores;
  readonly log: Log;
  /** The configuration in force. */
  readonly config: () => Config;
  readonly checks: () => ReadinessChecks;
  readonly upstreams: () => ReadinessInputs["upstreams"];
  readonly now: () => number;
  /** The clock by which records are judged. */
  readonly storeNow: () => number;
};

/**
 * The duties of a gateway that only one of its processes has, whichever of them serves the requests:
 * it sends the events of all, announces the gateway to others, and watches the records and the
 * upstreams.
 */
export class GatewayDuties {
  readonly #sources: DutySources;
  readonly #webhook: Webhook;
  readonly #recordChanges: RecordChangeWatcher;
  readonly #announcer: GatewayAnnouncer;
  readonly #usageEvents: UsageEventSender;
  #recordWarnings: RecordWarnings | undefined;
  #unwatch: () => void = () => {};

  constructor(sources: DutySources) {
    const { name, stores, log, config, checks, now } = sources;
    const { keys, quotas, metrics } = stores;
    this.#sources = sources;
    this.#webhook = new Webhook(config().events, now, (why) => {
      if (why === undefined) log.info("events_sent", {});
      else log.warn("events_unsent", { why });
    });
    this.#recordChanges = new RecordChangeWatcher({ keys, quotas, log });
    this.#announcer = new GatewayAnnouncer({
      ...{ name, gateways: quotas.gateways, metrics, checks, now },
    });
    this.#usageEvents = new UsageEventSender({ keys, quotas, log, now, config });
  }

  /** The number of events that were dropped so far. */
  get eventsDropped(): number {
    return this.#webhook.dropped;
  }

  /** Starts the duties with a timer. */
  start(): void {
    const { stores, log, config, upstreams, now, storeNow } = this.#sources;
    const { keys, quotas } = stores;
    this.#announcer.start();
    this.#usageEvents.start();
    this.#unwatch = watchUpstreamsAndSunsets({ config, upstreams, quotas, log, now });
    this.#recordWarnings = new RecordWarnings({ config, keys, log, now: storeNow });
  }

  /** Takes an event of the gateway, whichever of its processes it happened in. */
  takeEvent(event: WebhookEvent): void {
    this.#webhook.take(event);
    this.#sources.stores.recent.add(event);
  }

  /** Called when a new configuration is in force. */
  reconfigure(config: Config): void {
    this.#webhook.reconfigure(config.events);
    this.#usageEvents.reconfigure();
    this.#recordWarnings?.look();
  }

  /** Ends everything but the sending of events, which the end of the stores may cause. */
  async stop(): Promise<void> {
    this.#unwatch();
    this.#recordWarnings?.stop();
    this.#recordChanges.stop();
    await this.#announcer.close();
    await this.#usageEvents.close();
  }

  /** Sends no more events. */
  close(): void {
    this.#webhook.close();
  }
}
