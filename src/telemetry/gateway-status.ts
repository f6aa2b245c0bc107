import { parseJson } from "../base/parse-json.ts";

/** The state that a gateway reports. */
type GatewayState = "ready" | "not ready" | "draining";

/** The status message that a gateway publishes every second. */
export type GatewayStatus = {
  readonly name: string;
  readonly version: string;
  /** The hash of the configuration in force. */
  readonly config: string;
  /** Unix seconds. */
  readonly started: number;
  readonly requestsPerSecond: number;
  /** Responses of the gateway itself with a status of 400 or above. */
  readonly refusalsPerSecond: number;
  /** The time that the store took for the previous status message; null before the first. */
  readonly storeMs: number | null;
  readonly state: GatewayState;
  /** The checks that fail, each with its reason; null if none does. */
  readonly why: string | null;
};

/** The last message of the gateway `name`, unparsed, and its age by the store's clock. */
export type GatewayNews = {
  readonly name: string;
  readonly status: string;
  readonly ageMs: number;
};

/** A row of the list of gateways (docs/reference/admin.md#gateways). */
export type GatewayReport = Omit<GatewayStatus, "state"> & {
  readonly state: GatewayState | "silent";
  /** Seconds since its last message. */
  readonly age: number;
  /** Whether this is the gateway that answers. */
  readonly self: boolean;
  /** The members whose values differ from those of most gateways. */
  readonly differs: readonly ("version" | "config")[];
};

/** A gateway publishes its status every second. After this time without a message it is silent. */
const SILENT_MS = 3_000;
/** A gateway that runs may miss some messages. Its heartbeats count for as long. */
const ENDED_MS = 5_000;

/** Whether a gateway may still run whose last message is of that age. */
export function mayRun(ageMs: number): boolean {
  return ageMs < ENDED_MS;
}

/**
 * The gateways by name. A silent gateway keeps its last figures, and its rates are 0. Messages that
 * cannot be parsed, such as those of a later version, are left out.
 */
export function gatewayReports(
  news: readonly Omit<GatewayNews, "name">[],
  self: string,
): GatewayReport[] {
  const all = news.flatMap(({ status, ageMs }) => {
    const told = parseStatus(status);
    return told === undefined ? [] : [{ told, ageMs }];
  });
  const speaking = all.filter(({ ageMs }) => ageMs <= SILENT_MS).map(({ told }) => told);
  const usual = {
    version: mostCommon(speaking.map(({ version }) => version)),
    config: mostCommon(speaking.map(({ config }) => config)),
  };
  const rows = all.map(({ told, ageMs }): GatewayReport => {
    const isSilent = ageMs > SILENT_MS;
    const differs = (["version", "config"] as const).filter((name) => told[name] !== usual[name]);
    const own = { age: Math.floor(ageMs / 1_000), self: told.name === self };
    if (!isSilent) return { ...told, ...own, differs };
    const rates = { requestsPerSecond: 0, refusalsPerSecond: 0, storeMs: null };
    return { ...told, ...own, ...rates, state: "silent", why: null, differs };
  });
  return rows.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

/** The most common text; undefined if no text is more frequent than every other. */
function mostCommon(texts: readonly string[]): string | undefined {
  const counts = new Map<string, number>();
  for (const text of texts) counts.set(text, (counts.get(text) ?? 0) + 1);
  const [first, second] = [...counts].sort(([, a], [, b]) => b - a);
  return first?.[1] === second?.[1] ? undefined : first?.[0];
}

function parseStatus(text: string): GatewayStatus | undefined {
  const told = parseJson(text) as Partial<GatewayStatus> | null | undefined;
  if (typeof told !== "object" || told === null) return undefined;
  const { name, version, config, started, state, why = null, storeMs = null } = told;
  const { requestsPerSecond, refusalsPerSecond } = told;
  if (typeof name !== "string" || typeof version !== "string") return undefined;
  if (typeof config !== "string" || !isState(state)) return undefined;
  if (!isNumber(started) || !isNumber(requestsPerSecond) || !isNumber(refusalsPerSecond)) {
    return undefined;
  }
  const rates = { requestsPerSecond, refusalsPerSecond };
  const known = { why: typeof why === "string" ? why : null, storeMs: orNull(storeMs) };
  return { name, version, config, started, ...rates, state, ...known };
}

function isState(value: unknown): value is GatewayState {
  return value === "ready" || value === "not ready" || value === "draining";
}

function isNumber(value: unknown): value is number {
  return Number.isFinite(value);
}

function orNull(value: unknown): number | null {
  return isNumber(value) ? value : null;
}
