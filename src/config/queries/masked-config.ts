import { maskUrl } from "../../base/messages.ts";
import { formatHostPort } from "../../core/address.ts";
import type { RouteRule, RouteTable } from "../../core/http/route.ts";
import { limitsByWindow } from "../../core/keys/window-limits.ts";
import { formatMeterSource } from "../../core/meters/meter-source.ts";
import type { OperationMeter } from "../../core/quota/meters.ts";
import type { Limit, PlanMeter } from "../../core/quota/windows.ts";
import type { Config, EnvironmentConfig, ServiceConfig } from "../config.ts";
import { formatDuration } from "../schema/units.ts";

/**
 * The configuration in force as plain JSON for the admin's GET /api/config, by the keys of the file
 * and with durations as the file has them. Passwords, tokens and any text that may hold them are
 * ***.
 */
export function maskedConfig(config: Config): unknown {
  return withDurations(shownConfig(config));
}

/** Makes `idleTimeout: "90s"` of `idleTimeoutMs: 90000`. Operations have instants, not durations. */
function withDurations(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(withDurations);
  const members = Object.entries(value).map(([name, one]) => {
    if (name === "operations" && Array.isArray(one)) return [name, one];
    const isDuration = name.endsWith("Ms") && typeof one === "number";
    return isDuration ? [name.slice(0, -2), formatDuration(one)] : [name, withDurations(one)];
  });
  return Object.fromEntries(members);
}

function shownConfig(config: Config): object {
  const { store, keys, environments, plans, bans, unauthenticated, admin } = config;
  return {
    ...config,
    store: store.shown,
    keys: keys.in === "redis" ? "redis" : keys.path,
    environments: Object.fromEntries(environments.map((one) => [one.name, shownEnvironment(one)])),
    plans: Object.fromEntries([...plans.keys()].map((name) => [name, shownPlan(config, name)])),
    planBounds: undefined,
    bans: bans ?? "off",
    errors: config.errors === "plain" ? "plain" : "problem",
    errorsUrl: config.errors === "plain" ? "off" : (config.errors.typesUrl ?? "off"),
    unauthenticated: { [unauthenticated.window]: unauthenticated.limit },
    admin:
      admin === undefined
        ? "off"
        : {
            ...admin,
            listen: formatHostPort(admin.listen),
            token: admin.token === "" ? "" : "***",
          },
    ...(config.historyMs === undefined ? { history: "off" } : {}),
    quotaEventWindows: undefined,
    foreignKeys: config.foreignKeys.length === 0 ? "off" : config.foreignKeys,
    events: shownEvents(config),
    telemetry: shownTelemetry(config),
  };
}

function shownEvents({ events }: Config): unknown {
  if (events === undefined) return "off";
  return { ...events, url: maskUrl(events.url), secret: "***" };
}

/** The name of the service is a variable of OpenTelemetry and not a key of the file. */
function shownTelemetry({ telemetry }: Config): unknown {
  if (telemetry === undefined) return "off";
  return { otlp: maskUrl(telemetry.otlp), sample: telemetry.sample };
}

function shownPlan({ plans, planBounds }: Config, name: string): unknown {
  const windows: readonly Limit[] | "custom" = plans.get(name) ?? [];
  const { concurrent, observe = [], included = [], meters = [] } = planBounds.get(name) ?? {};
  const beside = {
    ...(concurrent === undefined ? {} : { concurrent }),
    ...(observe.length === 0 ? {} : { observe: limitsByWindow(observe) }),
    ...(included.length === 0 ? {} : { included: limitsByWindow(included) }),
    ...(meters.length === 0 ? {} : { meters: shownPlanMeters(meters) }),
  };
  if (windows !== "custom") return { ...limitsByWindow(windows), ...beside };
  return Object.keys(beside).length === 0 ? windows : { custom: true, ...beside };
}

function shownPlanMeters(meters: readonly PlanMeter[]): object {
  return Object.fromEntries(
    meters.map(({ name, limits }) => {
      const isUnlimited = limits.some(({ observed }) => observed);
      return [name, isUnlimited ? "unlimited" : limitsByWindow(limits)];
    }),
  );
}

/** The meters of a route in the form of the file. */
function shownMeters(meters: readonly OperationMeter[] = []): object {
  if (meters.length === 0) return {};
  const shown = meters.map(({ name, used, ...units }) => {
    return [name, { ...units, used: used.map(formatMeterSource) }];
  });
  return { meters: Object.fromEntries(shown) };
}

function shownEnvironment({ name: _, listen, ...rest }: EnvironmentConfig): unknown {
  const { tls, cors, maintenance, publicPlan, standing, services: backends, ...others } = rest;
  return {
    listen: formatHostPort(listen),
    ...others,
    ...shownService(rest),
    backends: backends.map(({ path, ...backend }) => ({
      path,
      ...backend,
      ...shownService(backend),
      basePath: undefined,
    })),
    tls: tls ?? "off",
    cors: cors ?? "off",
    public: publicPlan ?? "off",
    standing: standing ?? "off",
    maintenance: maintenance ?? "off",
  };
}

function shownService({ routes, upstreamTls, healthCheck }: ServiceConfig): object {
  const { basePath, paths = "exact", operations, costs = [], publicRoutes = [] } = routes;
  return {
    routes: undefined,
    basePath,
    paths,
    upstreamTls: {
      ca: upstreamTls.ca?.path,
      serverName: upstreamTls.serverName,
      cert: upstreamTls.clientCertificate?.cert.path,
      key: upstreamTls.clientCertificate?.key.path,
    },
    healthCheck:
      healthCheck === undefined
        ? "off"
        : { ...healthCheck, path: healthCheck.path.replace(/\?.*/, "?***") },
    operations:
      operations?.map(({ segments: _, meters, ...operation }) => {
        return { ...operation, ...shownMeters(meters) };
      }) ?? "all",
    ...(costs.length === 0 ? {} : { costs: costs.map(shownCost) }),
    ...(publicRoutes.length === 0 ? {} : { publicRoutes: publicRoutes.map(matchOf) }),
  };
}

function shownCost(rule: NonNullable<RouteTable["costs"]>[number]): object {
  return { match: matchOf(rule), cost: rule.cost, ...shownMeters(rule.meters) };
}

function matchOf({ method, template }: RouteRule): string {
  return `${method} ${template}`;
}
