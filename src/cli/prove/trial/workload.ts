import type { PromisedLimit, PromisedOperation } from "./promises.ts";

/** The promises that can be broken on purpose. */
export const PLANTED_FAULTS = [
  ...(["limit", "retry-after", "forward", "late", "cost", "history", "settle"] as const),
] as const;
export type PlantedFault = (typeof PLANTED_FAULTS)[number];

/**
 * The windows of each plan. Its day has room for everything, and so counts every charge. A busy
 * machine that sends a hundred requests a second reaches the others too.
 */
export const PLANS = {
  brisk: [
    { window: "second", limit: 10 },
    { window: "minute", limit: 350 },
  ],
  steady: [
    { window: "minute", limit: 20 },
    { window: "hour", limit: 5_000 },
  ],
  polite: [
    { window: "second", limit: 3 },
    { window: "hour", limit: 100_000 },
  ],
} as const satisfies Readonly<Record<string, readonly PromisedLimit[]>>;
export type PlanName = keyof typeof PLANS;
const DAY_LIMIT = 1_000_000_000;

/** The operations of the load: a plain one, an expensive one, and one with its own limit. */
export const OPERATIONS = {
  pets: { cost: 1, limits: [] },
  dear: { cost: 4, limits: [] },
  few: { cost: 1, limits: [{ window: "second", limit: 4, operation: "few" }] },
} as const satisfies Readonly<Record<string, PromisedOperation>>;
export type OperationName = keyof typeof OPERATIONS;

/** The meter of the expensive operation. The backend tells its units in a field, up to `max`. */
export const METER = {
  ...{ name: "tokens", operation: "dear", hold: 50, max: 120, field: "x-proof-tokens" },
} as const;

/** The usage by day of a proof: one of 24 hours and its end may touch three days. */
export const PROOF_HISTORY_PATH = "/api/history?days=3&limit=10000";

/**
 * Short bans, so that some begin and end during a proof. Clients that obey Retry-After earn none.
 */
const BANS = { strikes: 4, within: "10s", grace: "500ms", duration: "1s", factor: 1, max: "1s" };

export type GatewaySettings = {
  readonly number: number;
  readonly gateways: number;
  /** The URL of the store; undefined for the memory store. */
  readonly store: string | undefined;
  readonly prefix: string;
  readonly upstream: string;
  /** The planted fault of this gateway. */
  readonly fault: PlantedFault | undefined;
};

/** The description of the operations, in the folder of the configuration as `api-N.json`. */
export function apiText({ fault }: Pick<GatewaySettings, "fault">): string {
  const paths = Object.entries(OPERATIONS).map(([operationId, { cost, limits }]) => {
    const further = limits.map(({ window, limit }) => [window, limit] as const);
    const { name, hold, max, field } = METER;
    // The fault: the gateway looks where nothing is told, so each hold stands.
    const used = [`header ${fault === "settle" ? "x-nothing" : field}`];
    const meters = operationId === METER.operation ? { [name]: { hold, max, used } } : undefined;
    const operation = {
      operationId,
      ...(meters && { "x-meters": meters }),
      "x-cost": fault === "cost" ? 1 : cost,
      ...(further.length === 0 ? {} : { "x-limits": Object.fromEntries(further) }),
      responses: { "200": { description: "The pets" } },
    };
    return [`/${operationId}`, { get: operation }];
  });
  const info = { title: "proof", version: "1" };
  return JSON.stringify({ openapi: "3.1.0", info, paths: Object.fromEntries(paths) });
}

/**
 * With a planted fault nothing takes the store away. A store that is merely slow on a busy machine
 * must not count as away either, as that would excuse the fault. Late answers need the usual time.
 */
const STORE_TIMEOUT_OF_FAULTS = "1s";

/** The configuration of one gateway of a proof. It is JSON, which is valid YAML. */
export function configText(settings: GatewaySettings): string {
  const { number, gateways, store, prefix, upstream, fault } = settings;
  // The fault: one of several gateways counts by itself, and to twice the limit, which no share of an
  // outage on a busy machine excuses. A single one admits one unit more.
  const isAlone = fault === "limit" && gateways > 1;
  const [times, further] = [isAlone ? 2 : 1, fault === "limit" && !isAlone ? 1 : 0];
  const plans = Object.entries(PLANS).map(([name, windows]) => {
    const limits = windows.map(({ window, limit }) => [window, limit * times + further] as const);
    const meters = { [METER.name]: { day: DAY_LIMIT } };
    return [name, { ...Object.fromEntries(limits), day: DAY_LIMIT, meters }];
  });
  const isPatient = fault !== undefined && fault !== "late";
  return JSON.stringify({
    store: store ?? "memory",
    ...(isPatient && store !== undefined && { storeTimeout: STORE_TIMEOUT_OF_FAULTS }),
    ...(store === undefined
      ? {}
      : { storePrefix: isAlone ? `${prefix}-alone` : prefix, expectedGateways: gateways }),
    keys: "./keys.json",
    stateFile: `./state-${number}.json`,
    environments: {
      proof: {
        ...{ listen: "127.0.0.1:0", basePath: "/v1", keyTag: "proof", upstreams: [upstream] },
        api: `./api-${number}.json`,
      },
    },
    plans: Object.fromEntries(plans),
    bans: BANS,
    history: fault === "history" ? "off" : "400d",
    admin: { listen: "127.0.0.1:0" },
    limits: { drain: "1s" },
  });
}
