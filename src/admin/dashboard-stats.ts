import type { QuotaAdmin } from "../stores/quotas/quota-store.ts";
import type { MetricSources } from "../telemetry/metrics/metric-readers.ts";
import {
  type CounterCell,
  DURATION_BUCKETS,
  type MetricVec,
} from "../telemetry/metrics/metric-vec.ts";
import type { MetricsRecorder } from "../telemetry/metrics/metrics-recorder.ts";
import type { ReadinessChecks } from "../telemetry/readiness.ts";

/** Bans are read from the store once in this many readings. */
const READINGS_PER_LOOK = 5;

type Numbers = Readonly<Record<string, number>>;

/**
 * The state of the whole gateway at one instant, for the page. Counters are those of /metrics, from
 * the start on: readers make rates of them by subtraction. Instants are Unix milliseconds.
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
  /** `inForce` is null while the store does not tell. */
  readonly bans: { readonly imposed: number; readonly inForce: number | null };
  /** `bounds` in seconds; each of `counts` is of its bucket alone, the last one of all beyond. */
  readonly durations: {
    readonly bounds: readonly number[];
    readonly counts: readonly number[];
    readonly sum: number;
  };
  readonly deprecated: readonly {
    readonly environment: string;
    readonly route: string;
    readonly requests: number;
  }[];
  readonly upstreams: ReturnType<MetricSources["upstreams"]>;
  readonly store: { readonly up: boolean; readonly commands: number };
  readonly logDropped: number;
  /** Null where one process serves alone. */
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
  readonly watched: MetricSources;
  readonly counting: Pick<MetricsRecorder, "tallies" | "configuration">;
  readonly quotas: Pick<QuotaAdmin, "bans">;
  readonly checks: () => ReadinessChecks;
  readonly now: () => number;
};

/** Gives a reader of the figures; it never rejects. */
export function dashboardReader(sources: DashboardSources): () => Promise<DashboardStats> {
  let readings = 0;
  let bansInForce: number | null = null;
  return async () => {
    if (readings++ % READINGS_PER_LOOK === 0) {
      bansInForce = await sources.quotas.bans().then(
        (bans) => bans.length,
        () => null,
      );
    }
    return figuresNow(sources, bansInForce);
  };
}

function figuresNow(sources: DashboardSources, bansInForce: number | null): DashboardStats {
  const { watched, counting, checks, now } = sources;
  const { tallies } = counting;
  return {
    atMs: now(),
    version: watched.version,
    inFlight: watched.inFlight(),
    tunnels: watched.tunnels(),
    answered: sumBy(tallies.requests, ({ code }) => String(code)),
    ownAnswers: sumBy(tallies.requests, ({ code, source }) =>
      source === "gateway" ? String(code) : undefined,
    ),
    plans: plansIn(tallies.decisions),
    charged: sumOf(tallies.charged),
    forwards: sumOf(tallies.forwards),
    bans: { imposed: sumOf(tallies.bans), inForce: bansInForce },
    durations: durationsIn(tallies.durations),
    deprecated: [...tallies.deprecated.entries()].map(([labels, { value }]) => {
      return { environment: String(labels.env), route: String(labels.route), requests: value };
    }),
    upstreams: [...watched.upstreams()],
    store: { up: watched.storeUp(), commands: watched.storeCommands() },
    logDropped: watched.logDropped(),
    workers: watched.workers?.() ?? null,
    config: counting.configuration(),
    checks: checks(),
  };
}

type Labels = Record<string, string | number>;

/** Sums of cells by a name made of their labels; cells without one are left out. */
function sumBy(
  tally: MetricVec<CounterCell>,
  nameOf: (labels: Labels) => string | undefined,
): Numbers {
  const sums = new Map<string, number>();
  for (const [labels, { value }] of tally.entries()) {
    const name = nameOf(labels);
    if (name !== undefined) sums.set(name, (sums.get(name) ?? 0) + value);
  }
  return Object.fromEntries(sums);
}

function sumOf(tally: MetricVec<CounterCell>): number {
  let sum = 0;
  for (const [, { value }] of tally.rows()) sum += value;
  return sum;
}

/** Requests without an accepted key belong to no plan, and are left out. */
function plansIn(decisions: MetricVec<CounterCell>): PlanStats[] {
  const plans = new Map<string, PlanStats>();
  for (const [labels, { value }] of decisions.entries()) {
    const [environment, plan] = [String(labels.env), String(labels.plan)];
    if (labels.decision !== "admitted" && labels.decision !== "refused") continue;
    const id = JSON.stringify([environment, plan]);
    const row = plans.get(id) ?? { environment, plan, admitted: 0, refused: 0 };
    plans.set(id, { ...row, [labels.decision]: row[labels.decision] + value });
  }
  return [...plans.values()];
}

function durationsIn(
  durations: MetricsRecorder["tallies"]["durations"],
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
