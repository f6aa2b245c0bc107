import { setTimeout as delay } from "node:timers/promises";
import type { Config } from "../config/config.ts";
import type { Records } from "../core/keys/records.ts";
import type { KeyStore } from "../stores/keys/key-store.ts";
import { activeBans } from "../stores/queries/active-bans.ts";
import type { AccountBan, GatewayDirectory, QuotaAdmin } from "../stores/quotas/quota-store.ts";
import { type GatewayReport, gatewayReports } from "../telemetry/gateway-status.ts";
import type { Diagnostics } from "../telemetry/history/diagnostics.ts";
import type { RecentEvents } from "../telemetry/history/recent-events.ts";
import type { RefusedAccount } from "../telemetry/history/refused-accounts.ts";
import type { MetricSources } from "../telemetry/metrics/metric-readers.ts";
import {
  type CounterCell,
  DURATION_BUCKETS,
  type MetricVec,
} from "../telemetry/metrics/metric-vec.ts";
import type { MetricsRecorder } from "../telemetry/metrics/metrics-recorder.ts";
import type { ReadinessChecks } from "../telemetry/readiness.ts";
import { BackgroundValue } from "./background-value.ts";

/** Bans are read by a scan of the store, so they are read seldom while no page is open. */
const BANS_AGE_MS = 5_000;
const BANS_AGE_IDLE_MS = 60_000;
const BANS_PAUSES = 10;
const BANS_PAUSES_IDLE = 500;
const REFUSED_AGE_MS = 3_000;
const GATEWAYS_AGE_MS = 900;
/**
 * The figures wait this long for data of the store. After that they use the data of the last read.
 */
const PATIENCE_MS = 200;

type Numbers = Readonly<Record<string, number>>;

/**
 * The state of the whole gateway at one instant, for the page. Counters are those of /metrics and
 * count from the start. The page subtracts them to get rates. Instants are Unix
 * milliseconds; `atMs` is of the clock by which records are judged.
 */
export type DashboardStats = {
  readonly atMs: number;
  readonly version: string;
  readonly inFlight: number;
  readonly tunnels: number;
  /** Requests by the status of their answer. */
  readonly answered: Numbers;
  /** The part of `answered` that came from the gateway itself. */
  readonly ownAnswers: Numbers;
  readonly plans: readonly PlanStats[];
  readonly charged: number;
  readonly forwards: number;
  /** `inForce` is null if the store does not reply; `edition` counts the changes that were seen. */
  readonly bans: {
    readonly imposed: number;
    readonly inForce: number | null;
    readonly edition: number;
  };
  /**
   * `bounds` are in seconds. Each of `counts` is the count of its bucket alone; the last one counts
   * everything above the last bound.
   */
  readonly durations: {
    readonly bounds: readonly number[];
    readonly counts: readonly number[];
    readonly sum: number;
  };
  readonly deprecated: readonly {
    readonly environment: string;
    readonly route: string;
    readonly method: string;
    readonly requests: number;
  }[];
  /** The accounts with the most refusals in the last 15 minutes. */
  readonly refused: readonly RefusedAccount[];
  /** The gateways that share the store; null if the store does not reply. */
  readonly gateways: readonly GatewayReport[] | null;
  readonly upstreams: ReturnType<MetricSources["upstreams"]>;
  readonly store: { readonly up: boolean; readonly commands: number };
  /** `edition` counts the changes of keys and accounts that were seen. */
  readonly records: { readonly edition: number };
  readonly logDropped: number;
  /** Null if one process serves alone. */
  readonly workers: { readonly serving: number; readonly restarts: number } | null;
  readonly config: { readonly hash: string; readonly configuredMs: number };
  readonly checks: ReadinessChecks;
};

export type PlanStats = {
  readonly environment: string;
  readonly plan: string;
  readonly admitted: number;
  readonly refused: number;
};

export type DashboardSources = {
  readonly metricSources: MetricSources;
  readonly metrics: Pick<MetricsRecorder, "tables" | "configuration">;
  readonly keys: Pick<KeyStore, "records">;
  readonly quotas: Pick<QuotaAdmin, "bans"> & { readonly gateways: Pick<GatewayDirectory, "list"> };
  readonly config: () => Pick<Config, "bans">;
  readonly diagnostics: Pick<Diagnostics, "refused">;
  readonly recent: Pick<RecentEvents, "last" | "since">;
  readonly checks: () => ReadinessChecks;
  /** The name of this gateway. */
  readonly name: string;
  readonly now: () => number;
};

/**
 * `endMs` is on performance.now(). The store's clock alone decides how long a ban lasts, and that of
 * this machine may differ from it (docs/reference/store.md).
 */
type ReadBan = { readonly ban: Omit<AccountBan, "leftMs">; readonly endMs: number };

/** Reads the figures. If the store is slow, they contain the data of the last read. */
export class Dashboard {
  readonly #sources: DashboardSources;
  readonly #bans: BackgroundValue<readonly ReadBan[]>;
  readonly #refused: BackgroundValue<readonly RefusedAccount[]>;
  readonly #gateways: BackgroundValue<readonly GatewayReport[]>;
  #bansSeen = "";
  #bansEdition = 0;
  #recordsSeen: Records | undefined;
  #recordsEdition = 0;
  /** The last event, and the number of bans, when the bans were read. */
  #lastEvent = 0;
  #lastImposed = 0;

  constructor(sources: DashboardSources) {
    const { quotas, config, diagnostics, name } = sources;
    this.#sources = sources;
    this.#bans = new BackgroundValue(async () => {
      const readMs = performance.now();
      const active = await activeBans(quotas, config());
      return active.map(({ leftMs, ...ban }) => ({ ban, endMs: readMs + leftMs }));
    });
    this.#refused = new BackgroundValue(() => diagnostics.refused());
    this.#gateways = new BackgroundValue(async () => {
      return gatewayReports(await quotas.gateways.list(), name);
    });
  }

  /** The figures for the live stream. Never rejects. */
  async read(): Promise<DashboardStats> {
    this.#refreshBans();
    this.#refused.refresh({ maxAgeMs: REFUSED_AGE_MS });
    this.#gateways.refresh({ maxAgeMs: GATEWAYS_AGE_MS });
    const values = [this.#bans, this.#refused, this.#gateways];
    const late = delay(PATIENCE_MS, undefined, { ref: false });
    await Promise.race([Promise.all(values.map(({ reading }) => reading)), late]);
    return this.#figures();
  }

  /**
   * The figures for the plots of a page that is opened later. They cost the store next to nothing.
   */
  readIdle(): DashboardStats {
    this.#bans.refresh({ maxAgeMs: BANS_AGE_IDLE_MS, pauses: BANS_PAUSES_IDLE });
    return this.#figures();
  }

  #refreshBans(): void {
    const { recent } = this.#sources;
    const imposed = this.#imposed();
    const isChanged =
      imposed !== this.#lastImposed ||
      recent.since(this.#lastEvent).some(({ kind }) => kind === "ban" || kind === "ban_lifted");
    const maxAgeMs = isChanged ? 0 : BANS_AGE_MS;
    if (!this.#bans.refresh({ maxAgeMs, pauses: BANS_PAUSES })) return;
    this.#lastEvent = recent.last;
    this.#lastImposed = imposed;
  }

  #imposed(): number {
    return sumOf(this.#sources.metrics.tables.bans);
  }

  #bansNow(): DashboardStats["bans"] {
    const nowMs = performance.now();
    const bans = this.#bans.value?.filter(({ endMs }) => endMs > nowMs);
    const seen = JSON.stringify(bans?.map(({ ban }) => ban));
    if (seen !== this.#bansSeen) this.#bansEdition += 1;
    this.#bansSeen = seen;
    const edition = this.#bansEdition;
    return { imposed: this.#imposed(), inForce: bans?.length ?? null, edition };
  }

  /** A change replaces all records by others. */
  #recordsNow(): DashboardStats["records"] {
    const records = this.#sources.keys.records();
    if (records !== this.#recordsSeen) this.#recordsEdition += 1;
    this.#recordsSeen = records;
    return { edition: this.#recordsEdition };
  }

  #figures(): DashboardStats {
    const { metricSources, metrics, checks, now } = this.#sources;
    const { tables } = metrics;
    return {
      atMs: now(),
      version: metricSources.version,
      inFlight: metricSources.inFlight(),
      tunnels: metricSources.tunnels(),
      answered: sumBy(tables.requests, ({ code }) => String(code)),
      ownAnswers: sumBy(tables.requests, ({ code, source }) =>
        source === "gateway" ? String(code) : undefined,
      ),
      plans: plansIn(tables.decisions),
      charged: sumOf(tables.charged),
      forwards: sumOf(tables.forwards),
      bans: this.#bansNow(),
      durations: durationsIn(tables.durations),
      deprecated: [...tables.deprecated.entries()].map(([labels, { value }]) => {
        const [environment, route] = [String(labels.env), String(labels.route)];
        return { environment, route, method: String(labels.method), requests: value };
      }),
      refused: this.#refused.value ?? [],
      gateways: this.#gateways.value ?? null,
      upstreams: [...metricSources.upstreams()],
      store: { up: metricSources.storeUp(), commands: metricSources.storeCommands() },
      records: this.#recordsNow(),
      logDropped: metricSources.logDropped(),
      workers: metricSources.workers?.() ?? null,
      config: metrics.configuration(),
      checks: checks(),
    };
  }
}

type Labels = Record<string, string | number>;

/** The sums of cells by a name made of their labels; cells without a name are left out. */
function sumBy(
  table: MetricVec<CounterCell>,
  nameOf: (labels: Labels) => string | undefined,
): Numbers {
  const sums = new Map<string, number>();
  for (const [labels, { value }] of table.entries()) {
    const name = nameOf(labels);
    if (name !== undefined) sums.set(name, (sums.get(name) ?? 0) + value);
  }
  return Object.fromEntries(sums);
}

function sumOf(table: MetricVec<CounterCell>): number {
  let sum = 0;
  for (const [, { value }] of table.rows()) sum += value;
  return sum;
}

/** The decisions by plan. Requests without an accepted key have no plan and are left out. */
function plansIn(decisions: MetricVec<CounterCell>): PlanStats[] {
  const plans = new Map<string, PlanStats>();
  for (const [labels, { value }] of decisions.entries()) {
    const [environment, plan] = [String(labels.env), String(labels.plan)];
    if (labels.decision !== "admitted" && labels.decision !== "refused") continue;
    const id = JSON.stringify([environment, plan]);
    const row = plans.get(id) ?? { environment, plan, admitted: 0, refused: 0 };
    plans.set(id, { ...row, [labels.decision]: value });
  }
  return [...plans.values()];
}

function durationsIn(
  durations: MetricsRecorder["tables"]["durations"],
): DashboardStats["durations"] {
  const counts = new Array<number>(DURATION_BUCKETS.length + 1).fill(0);
  let sum = 0;
  for (const [, cell] of durations.rows()) {
    sum += cell.sum;
    cell.counts.forEach((count, i) => {
      counts[i] = (counts[i] ?? 0) + count;
    });
  }
  return { bounds: DURATION_BUCKETS, counts, sum };
}
