import type { Listeners } from "../../gateway/listen/listeners.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import type { StoreStatus } from "../../stores/quotas/quota-store.ts";
import type { WebhookEvent } from "../../telemetry/log/webhook.ts";
import type { MetricSources } from "../../telemetry/metrics/metric-readers.ts";
import type { CountsDelta } from "../../telemetry/metrics/metrics-recorder.ts";
import type { ReadinessCheck, ReadinessChecks } from "../../telemetry/readiness.ts";

/** The counts of one process since its last status, and its state, for the supervisor. */
export type ProcessStatus = {
  readonly counted: CountsDelta;
  /** Events since the last status. */
  readonly events: readonly WebhookEvent[];
  readonly gauges: Gauges;
  readonly checks: ReadinessChecks;
};

export type Gauges = {
  readonly inFlight: number;
  readonly connections: number;
  readonly tunnels: number;
  readonly upstreams: readonly UpstreamUp[];
  readonly storeUp: boolean;
  readonly storeUnsafePolicy: boolean;
  readonly storeSplit: boolean;
  readonly keysLost: number;
  /** These only grow while the process lives. */
  readonly storeCommands: number;
  readonly chargesUncertain: number;
  readonly chargesLost: number;
  readonly logDropped: number;
  readonly eventsDropped: number;
  readonly telemetryDropped: number;
};
type UpstreamUp = { readonly environment: string; readonly origin: string; readonly up: boolean };

/** The facts about a gateway in this process that each scrape needs. */
export function metricSources(
  serving: Listeners,
  { quotas, keys }: { readonly quotas: StoreStatus; readonly keys: Pick<KeyStore, "lostCount"> },
): Omit<MetricSources, "version" | "logDropped" | "eventsDropped" | "telemetryDropped"> {
  return {
    inFlight: () => serving.active,
    connections: () => serving.connections,
    tunnels: () => serving.tunnels,
    upstreams: () => serving.upstreams(),
    storeUp: () => quotas.health().ok,
    storeUnsafePolicy: () => quotas.unsafePolicy(),
    storeSplit: () => quotas.isSplit(),
    keysLost: () => keys.lostCount(),
    storeCommands: () => quotas.commandCount(),
    chargesUncertain: () => quotas.charges().uncertainUnits,
    chargesLost: () => quotas.charges().lostUnits,
  };
}

export function readGauges(watched: Omit<MetricSources, "version">): Gauges {
  return {
    inFlight: watched.inFlight(),
    connections: watched.connections(),
    tunnels: watched.tunnels(),
    upstreams: [...watched.upstreams()],
    storeUp: watched.storeUp(),
    storeUnsafePolicy: watched.storeUnsafePolicy(),
    storeSplit: watched.storeSplit(),
    keysLost: watched.keysLost(),
    storeCommands: watched.storeCommands(),
    chargesUncertain: watched.chargesUncertain(),
    chargesLost: watched.chargesLost(),
    logDropped: watched.logDropped(),
    eventsDropped: watched.eventsDropped(),
    telemetryDropped: watched.telemetryDropped(),
  };
}

/** All processes as one gateway: counts are summed, and everything else is the worst value. */
export function sumGauges(all: readonly Gauges[]): Gauges {
  const sum = (read: (gauges: Gauges) => number) => {
    return all.reduce((total, gauges) => total + read(gauges), 0);
  };
  const upstreams = new Map<string, UpstreamUp>();
  for (const one of all.flatMap((gauges) => gauges.upstreams)) {
    const id = `${one.environment} ${one.origin}`;
    const up = one.up && upstreams.get(id)?.up !== false;
    upstreams.set(id, { ...one, up });
  }
  return {
    inFlight: sum(({ inFlight }) => inFlight),
    connections: sum(({ connections }) => connections),
    tunnels: sum(({ tunnels }) => tunnels),
    upstreams: [...upstreams.values()],
    storeUp: all.every(({ storeUp }) => storeUp),
    storeUnsafePolicy: all.some(({ storeUnsafePolicy }) => storeUnsafePolicy),
    storeSplit: all.some(({ storeSplit }) => storeSplit),
    keysLost: Math.max(0, ...all.map(({ keysLost }) => keysLost)),
    storeCommands: sum(({ storeCommands }) => storeCommands),
    chargesUncertain: sum(({ chargesUncertain }) => chargesUncertain),
    chargesLost: sum(({ chargesLost }) => chargesLost),
    logDropped: sum(({ logDropped }) => logDropped),
    eventsDropped: sum(({ eventsDropped }) => eventsDropped),
    telemetryDropped: sum(({ telemetryDropped }) => telemetryDropped),
  };
}

/** The worst result of all processes in each check, and the number of processes that have it. */
export function worstReadinessCheck(
  all: readonly ReadinessChecks[],
  name: "store" | "keys",
): ReadinessCheck {
  const bad = all.map((checks) => checks[name]).filter(({ ok }) => !ok);
  const [first] = bad;
  if (first === undefined) return { ok: true };
  const why = first.why ?? "not well";
  return {
    ok: false,
    why: bad.length === all.length ? why : `${why} (${bad.length} of ${all.length} workers)`,
  };
}
