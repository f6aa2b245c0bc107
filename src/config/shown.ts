import { formatAddress } from "../core/http/address.ts";
import type { Limit } from "../core/quota/windows.ts";
import type { Config, Environment } from "./config.ts";

/**
 * The configuration in force as plain JSON for the admin's GET /api/config, in the contract's own
 * keys but with times in milliseconds. Passwords and tokens are ***.
 */
export function shownConfig(config: Config): unknown {
  const { store, keys, environments, plans, bans, unauthenticated, admin } = config;
  return {
    ...config,
    store: store.kind === "memory" ? "memory" : store.shown,
    keys: keys.in === "redis" ? "redis" : keys.path,
    environments: Object.fromEntries(environments.map((one) => [one.name, shownEnvironment(one)])),
    plans: Object.fromEntries([...plans.keys()].map((name) => [name, shownPlan(config, name)])),
    planBounds: undefined,
    bans: bans ?? "off",
    unauthenticated: { [unauthenticated.window]: unauthenticated.limit },
    admin:
      admin === undefined
        ? "off"
        : { listen: formatAddress(admin.listen), token: admin.token === "" ? "" : "***" },
  };
}

function shownPlan({ plans, planBounds }: Config, name: string): unknown {
  const windows: readonly Limit[] | "custom" = plans.get(name) ?? [];
  const { concurrent, observe = [] } = planBounds.get(name) ?? {};
  const beside = {
    ...(concurrent === undefined ? {} : { concurrent }),
    ...(observe.length === 0 ? {} : { observe: shownLimits(observe) }),
  };
  if (windows !== "custom") return { ...shownLimits(windows), ...beside };
  return Object.keys(beside).length === 0 ? windows : { custom: true, ...beside };
}

function shownLimits(limits: readonly Limit[]): object {
  return Object.fromEntries(limits.map(({ window, limit }) => [window, limit]));
}

function shownEnvironment({ name: _, listen, routes, ...rest }: Environment): unknown {
  const { upstreamTls, tls, cors, healthCheck } = rest;
  const operations = routes.operations?.map(({ segments: _, ...operation }) => operation);
  return {
    listen: formatAddress(listen),
    basePath: routes.basePath,
    ...rest,
    upstreamTls: { ...upstreamTls, ca: upstreamTls.ca?.path },
    healthCheck: healthCheck ?? "off",
    tls: tls ?? "off",
    cors: cors ?? "off",
    operations: operations ?? "all",
  };
}
