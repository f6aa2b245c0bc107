import { traceIdOf } from "../../core/http/trace-context.ts";
import { maskKeysInPath } from "../../core/keys/key.ts";
import { loggedMeter, type MeterCharge } from "../../core/meters/meter-charge.ts";
import type { AccessLogEntry } from "../../telemetry/log/access-log-entry.ts";
import type { Exchange } from "./exchange.ts";

const PATH_LOGGED_MAX = 2_048;

/**
 * The access log entry of an exchange that ended at `endedMs`, on the clock of its arrival.
 * `charges` are those of its meters.
 */
export function accessLogEntry(
  exchange: Exchange,
  endedMs: number,
  charges: readonly MeterCharge[] = [],
): AccessLogEntry {
  const { environment, route, caller, decision, arrival } = exchange;
  return {
    id: exchange.id,
    env: (environment ?? arrival.onlyEnvironment)?.name,
    account: caller?.account,
    key: caller?.key?.id,
    plan: caller?.plan,
    meta: metaOf(exchange),
    method: exchange.request.method,
    route: route?.match.template,
    path: maskKeysInPath(exchange.path, environment?.foreignKeys).slice(0, PATH_LOGGED_MAX),
    status: exchange.status,
    code: exchange.code,
    source: exchange.source,
    decision: exchange.outcome,
    charged: decision?.charged ?? 0,
    forwards: exchange.forwards,
    durationMs: Math.round((endedMs - arrival.beganMs) * 1000) / 1000,
    client: arrival.client,
    upstream: exchange.upstream,
    backend: route?.service?.path,
    traceId: traceOf(exchange),
    decidedAt: decision?.decidedMs,
    cost: exchange.outcome === "none" ? undefined : exchange.cost,
    strikes: decision?.strikes,
    config: environment?.config,
    meters: charges.length === 0 ? undefined : metersOf(charges),
    observed: decision?.observed,
    over: exchange.over,
    windows: decision?.refusal?.windows,
    holds: decision?.refusal?.holds,
    monthFrom: decision?.refusal?.monthFrom,
    by: decision?.refusal?.by,
    ban: decision?.refusal?.ban,
    until: exchange.until,
    why: exchange.why,
  };
}

function metersOf(charges: readonly MeterCharge[]): AccessLogEntry["meters"] {
  return Object.fromEntries(charges.map((charge) => [charge.name, loggedMeter(charge)]));
}

/** The trace id that the gateway continues or begins, or else the client's. */
function traceOf({ arrival, head }: Exchange): string | undefined {
  return arrival.span?.traceId ?? (head === undefined ? undefined : traceIdOf(head));
}

/** The metadata that the configuration includes in the entry; undefined if there is none. */
function metaOf({ environment, caller }: Exchange): Readonly<Record<string, string>> | undefined {
  const meta = caller?.owner?.meta;
  if (meta === undefined || environment === undefined || environment.logMeta.length === 0)
    return undefined;
  const told: Record<string, string> = {};
  for (const name of environment.logMeta) {
    if (Object.hasOwn(meta, name)) told[name] = meta[name] as string;
  }
  return Object.keys(told).length === 0 ? undefined : told;
}
