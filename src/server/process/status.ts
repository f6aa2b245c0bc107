import type { Listeners } from "../../gateway/listen/listeners.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import type { StoreStatus } from "../../stores/quotas/quota-store.ts";
import type { WebhookEvent } from "../../telemetry/log/webhook.ts";
import type { MetricSources } from "../../telemetry/metrics/metric-readers.ts";
import type { CountsDelta } from "../../telemetry/metrics/metrics-recorder.ts";
import type {
  ReadinessCheck,
  ReadinessChecks,
  ReadinessInputs,
  UpstreamState,
} from "../../telemetry/readiness.ts";

/** The counts of one process since its last status, and its state, for the supervisor. */
export type ProcessStatus = {
  readonly counted: CountsDelta;
  /** Events since the last status. */
  readonly events: readonly WebhookEvent[];
  readonly gauges: Gauges;
  readonly checks: ReadinessChecks;
};

/** The sources of one process; the others belong to the gateway as a whole. */
export type ProcessSources = Omit<MetricSources, "version" | "gateway" | "checks" | "workers">;

/** The values of a process, as they are sent to its supervisor. */
export type Gauges = {
  readonly [N in keyof ProcessSources]: ReturnType<ProcessSources[N]> extends Iterable<infer T>
    ? readonly T[]
    : ReturnType<ProcessSources[N]>;
};

/** The facts about a gateway in this process that each scrape needs. */
export function metricSources(
  listeners: Listeners,
  { quotas, keys }: { readonly quotas: StoreStatus; readonly keys: KeyStore },
): Omit<ProcessSources, "logDropped" | "eventsDropped" | "telemetryDropped"> {
  return {
    inFlight: () => listeners.active,
    connections: () => listeners.connections,
    tunnels: () => listeners.tunnels,
    upstreams: () => listeners.upstreams(),
    certificates: () => listeners.certificates(),
    storeUp: () => quotas.health().ok,
    storeUnsafePolicy: () => quotas.unsafePolicy(),
    storeSplit: () => quotas.isSplit(),
    keys: () => keys.records().keys.length,
    accounts: () => keys.records().accounts.length,
    keysLost: () => keys.troubles().lost,
    keysDamaged: () => keys.troubles().damaged,
    keysUnreadable: () => keys.troubles().unreadable,
    keysOlder: () => keys.troubles().older,
    stateFileUnwritten: () => quotas.unwrittenCount(),
    storeCommands: () => quotas.commandCount(),
    chargesUncertain: () => quotas.charges().uncertainUnits,
    chargesLost: () => quotas.charges().lostUnits,
    chargesOwed: () => quotas.charges().owedUnits,
  };
}

/** The check of the records, and what it tells people. */
export function keysReadiness(
  keys: Pick<KeyStore, "health" | "ready" | "troubles">,
): ReadinessInputs["keys"] {
  return { ...keys.health(), inUse: keys.ready, damaged: keys.troubles().damaged };
}

/** The value of all processes together, from those of each. */
type Join<T> = (all: readonly T[]) => T;

const sum: Join<number> = (all) => all.reduce((total, one) => total + one, 0);
const most: Join<number> = (all) => Math.max(0, ...all);
const every: Join<boolean> = (all) => all.every(Boolean);
const any: Join<boolean> = (all) => all.some(Boolean);

/**
 * An upstream as two processes know it. It is down while either has it down: what they noticed at
 * overlapping times is one outage, from its first instant to its last. Both notice the same outages,
 * so the counts are not summed.
 */
function joinUpstreams(a: UpstreamState, b: UpstreamState): UpstreamState {
  const state = a.up ? b : a;
  if (a.outages === undefined || b.outages === undefined) {
    const outages = a.outages ?? b.outages;
    return outages === undefined ? state : { ...state, outages };
  }
  const isInOrder = a.outages.downMs <= b.outages.downMs;
  const [first, last] = isInOrder ? [a.outages, b.outages] : [b.outages, a.outages];
  const hasEnded = (isInOrder ? a : b).up;
  const isApart = hasEnded && last.downMs > (first.upMs ?? 0);
  const { downMs, why } = isApart ? last : first;
  const upMs = Math.max(first.upMs ?? 0, last.upMs ?? 0);
  const count = Math.max(first.count, last.count);
  return { ...state, outages: { count, downMs, why, ...(upMs > 0 && { upMs }) } };
}

/** Counts are summed. Of everything else the worst value holds, of records the newest. */
const JOINS: { readonly [N in keyof Gauges]: Join<Gauges[N]> } = {
  inFlight: sum,
  connections: sum,
  tunnels: sum,
  upstreams: (all) => {
    const upstreams = new Map<string, Gauges["upstreams"][number]>();
    for (const one of all.flat()) {
      const id = `${one.environment} ${one.backend ?? ""} ${one.origin}`;
      const known = upstreams.get(id);
      upstreams.set(id, known === undefined ? one : joinUpstreams(known, one));
    }
    return [...upstreams.values()];
  },
  // The reader takes the one that ends first.
  certificates: (all) => all.flat(),
  storeUp: every,
  storeUnsafePolicy: any,
  storeSplit: any,
  keys: most,
  accounts: most,
  keysLost: most,
  keysDamaged: most,
  keysUnreadable: sum,
  keysOlder: sum,
  stateFileUnwritten: sum,
  storeCommands: sum,
  chargesUncertain: sum,
  chargesLost: sum,
  chargesOwed: sum,
  logDropped: sum,
  eventsDropped: sum,
  telemetryDropped: sum,
};

/** Numbers that only grow while a process lives, and so must not fall when one ends. */
export const GROWING = [
  ...["keysUnreadable", "keysOlder", "stateFileUnwritten", "storeCommands"],
  ...["chargesUncertain", "chargesLost", "logDropped", "eventsDropped", "telemetryDropped"],
] as readonly GrowingName[];
/** Numbers that a worker still has while it drains. */
export const DRAINING = ["inFlight", "connections", "tunnels", "chargesOwed"] as const;
export type GrowingName = {
  [N in keyof Gauges]: Gauges[N] extends number ? N : never;
}[keyof Gauges];

const NAMES = Object.keys(JOINS) as (keyof Gauges)[];

function each<T>(read: (name: keyof Gauges) => unknown): T {
  return Object.fromEntries(NAMES.map((name) => [name, read(name)])) as T;
}

/** The values now. */
export function readGauges(watched: ProcessSources): Gauges {
  return each((name) => {
    const value = watched[name]();
    return typeof value === "object" ? [...value] : value;
  });
}

/** All processes as one gateway. */
export function joinGauges(all: readonly Gauges[]): Gauges {
  return each((name) => (JOINS[name] as Join<unknown>)(all.map((gauges) => gauges[name])));
}

/** Sources that are read from the values of `now`. */
export function sourcesOf(now: () => Gauges): ProcessSources {
  return each((name) => () => now()[name]);
}

/**
 * The worst result of all processes in each check, and the number of processes that have it; `own`
 * if there is none.
 */
export function worstReadinessCheck(
  all: readonly ReadinessChecks[],
  name: "store" | "keys",
  own: ReadinessCheck,
): ReadinessCheck {
  if (all.length === 0) return own;
  const bad = all.map((checks) => checks[name]).filter(({ ok }) => !ok);
  const [first] = bad;
  if (first === undefined) return { ok: true };
  const why = first.why ?? "not well";
  return {
    ok: false,
    why: bad.length === all.length ? why : `${why} (${bad.length} of ${all.length} workers)`,
  };
}
