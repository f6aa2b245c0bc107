import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type AdminLimits, startAdmin } from "../../src/admin/listener.ts";
import { createPrometheusMetrics, type PrometheusMetrics } from "../../src/admin/prometheus.ts";
import type { Config } from "../../src/config/config.ts";
import { loadConfig } from "../../src/config/load/load.ts";
import type { ReloadResult } from "../../src/config/reload-result.ts";
import type { HostPort } from "../../src/core/address.ts";
import type { KeyStore } from "../../src/stores/keys/key-store.ts";
import { openKeyStore, openQuotaStore } from "../../src/stores/open-stores.ts";
import type { QuotaStore } from "../../src/stores/quotas/quota-store.ts";
import { type OnUnanswered, RecentRefusals } from "../../src/telemetry/history/diagnostics.ts";
import { RecentEvents } from "../../src/telemetry/history/recent-events.ts";
import type { MetricSources } from "../../src/telemetry/metrics/metric-readers.ts";
import type { ReadinessChecks } from "../../src/telemetry/readiness.ts";

export const TOKEN = "canary-admin-token-0123456789abcdef";
/** Noon of some day: far from the edge of a minute or a day. */
export const NOON_MS = Date.UTC(2026, 4, 5, 12, 0, 10);

const YAML = `
store: \${STORE:-memory}
keys: ./keys.json
stateFile: ./state.json
environments:
  production: { listen: 127.0.0.1:0, basePath: /v1, keyTag: live, upstreams: ["http://127.0.0.1:9"] }
  staging: { listen: 127.0.0.1:0, basePath: /v1, keyTag: test, upstreams: ["http://127.0.0.1:9"] }
plans:
  free: { minute: 3, day: 100 }
  pro: { minute: 300, day: 10000 }
  enterprise: custom
bans: { strikes: 1, within: 1m, grace: 1s, duration: 1m, factor: 4, max: 24h, forgetAfter: 24h }
admin: { listen: 127.0.0.1:0, token: "\${ADMIN_TOKEN:-}" }
`;

type Answered = {
  readonly status: number;
  readonly fields: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The body, as whatever it is to be. */
  json<T = Record<string, unknown>>(): T;
};

type Asked = {
  readonly body?: unknown;
  readonly fields?: Record<string, string>;
  /** The admin token unless given; "" sends none. */
  readonly token?: string;
};

export type AdminHouse = AsyncDisposable & {
  readonly url: string;
  readonly port: number;
  readonly config: Config;
  readonly keys: KeyStore;
  readonly quotas: QuotaStore;
  readonly metrics: PrometheusMetrics;
  readonly recent: RecentEvents;
  /** Everything that was logged, one JSON text each. */
  readonly logged: string[];
  /** The names of those lines that are errors. */
  readonly errors: string[];
  /** Moves the clock of the listener and of the store. */
  clock: { nowMs: number };
  /** The token and the names of the configuration in force. */
  guard: { token: string; hosts: readonly string[] };
  checks: ReadinessChecks;
  checksOf: (environment?: string) => ReadinessChecks;
  reloaded: () => Promise<ReloadResult>;
  /** How often other processes were made to read the key records, and this one to tell the store, how long each takes, and which workers do not answer. */
  made: { spreads: number; flushes: number; takesMs: number; silent: readonly number[] };
  ask(method: string, path: string, asked?: Asked): Promise<Answered>;
};

export type HouseOptions = {
  readonly token?: string;
  readonly listen?: HostPort;
  readonly hosts?: readonly string[];
  readonly limits?: Partial<AdminLimits>;
  /** An address of Redis; the memory store unless given. */
  readonly store?: string;
};

/** The admin listener over a real key file and the real memory store, in a directory of its own. */
export async function openAdminHouse(options: HouseOptions = {}): Promise<AdminHouse> {
  const { token = TOKEN, listen = { host: "127.0.0.1", port: 0 }, limits = {} } = options;
  const { config, directory } = await readConfig({ ADMIN_TOKEN: token, STORE: options.store });
  const clock = { nowMs: NOON_MS };
  const now = () => clock.nowMs;
  const { logged, errors, note, log } = recordingLog();
  const report = (_level: string, message: string, details?: unknown) => note(message, details);
  const keys = await openKeyStore(config, { now, report, watch: true });
  const quotas = await openQuotaStore(config, { now, report });
  const metrics = createPrometheusMetrics({ ...UNWATCHED, storeUp: () => quotas.health().ok });
  metrics.configured(config, now());

  const state = {
    guard: { token, hosts: options.hosts ?? [] },
    clock,
    checks: ALL_WELL,
    made: { spreads: 0, flushes: 0, takesMs: 0, silent: [] },
    checksOf: (_environment?: string): ReadinessChecks => state.checks,
    reloaded: async (): Promise<ReloadResult> => ({ ok: true, hash: config.hash }),
  };
  const closeStores = async () => {
    await quotas.close();
    await keys.close();
    await rm(directory, { recursive: true });
  };
  const recent = new RecentEvents();
  const admin = await startAdmin({
    listen,
    limits,
    guard: () => state.guard,
    version: "9.8.7",
    config: () => config,
    keys,
    quotas,
    checks: (environment) => state.checksOf(environment),
    reload: () => state.reloaded(),
    notReloaded: () => [],
    metrics,
    figures: async () => ({}),
    readings: () => [],
    name: "a-gateway",
    recent,
    log,
    now,
    ...counting(state.made),
  }).catch(async (error: unknown) => {
    await closeStores();
    throw error;
  });
  const port = Number(new URL(admin.url).port);
  return Object.assign(state, {
    ...{ url: admin.url, port, config, keys, quotas, metrics, recent, logged, errors },
    ask: (method: string, path: string, asked: Asked = {}) =>
      ask({ ...listen, port }, method, path, { token, ...asked }),
    [Symbol.asyncDispose]: async () => {
      await admin.close();
      await closeStores();
    },
  });
}

/** A log that keeps its lines, and the names of those that are errors. */
function recordingLog() {
  const logged: string[] = [];
  const errors: string[] = [];
  const note = (message: string, details: unknown) =>
    void logged.push(JSON.stringify([message, details]));
  const error = (message: string, details: unknown) => {
    errors.push(message);
    note(message, details);
  };
  return { logged, errors, note, log: { info: note, warn: note, error } };
}

function counting(made: AdminHouse["made"]) {
  const askWorkers = async (onUnanswered: OnUnanswered) => {
    await sleep(made.takesMs);
    for (const worker of made.silent) onUnanswered(worker);
  };
  const spreadKeys = async (onUnanswered: OnUnanswered) => {
    await askWorkers(onUnanswered);
    made.spreads += 1;
  };
  const diagnostics = new RecentRefusals({ open: () => [], tellStore: async () => {} });
  const flushToStore = async (onUnanswered: OnUnanswered) => {
    await askWorkers(onUnanswered);
    made.flushes += 1;
  };
  return { spreadKeys, diagnostics: Object.assign(diagnostics, { flushToStore }) };
}

async function readConfig(
  env: Record<string, string | undefined>,
): Promise<{ config: Config; directory: string }> {
  const directory = await mkdtemp(join(tmpdir(), "tollgate-admin-"));
  const file = join(directory, "tollgate.yaml");
  await writeFile(file, YAML);
  const loaded = await loadConfig(file, env);
  if (!loaded.ok) throw new Error(loaded.mistakes.map(({ message }) => message).join("; "));
  return { config: loaded.config, directory };
}

/** A gateway that has nothing and nothing to tell. */
export const UNWATCHED: MetricSources = {
  version: "0.0.0",
  gateway: "a-gateway",
  checks: () => ALL_WELL,
  keys: () => 0,
  accounts: () => 0,
  keysDamaged: () => 0,
  keysUnreadable: () => 0,
  keysOlder: () => 0,
  stateFileUnwritten: () => 0,
  certificates: () => [],
  storeUp: () => true,
  inFlight: () => 0,
  connections: () => 0,
  tunnels: () => 0,
  upstreams: () => [],
  storeUnsafePolicy: () => false,
  storeSplit: () => false,
  keysLost: () => 0,
  storeCommands: () => 0,
  chargesUncertain: () => 0,
  chargesLost: () => 0,
  chargesOwed: () => 0,
  logDropped: () => 0,
  eventsDropped: () => 0,
  telemetryDropped: () => 0,
};

export const ALL_WELL: ReadinessChecks = {
  config: { ok: true },
  store: { ok: true },
  keys: { ok: true },
  upstreams: { ok: true },
  draining: { ok: true },
};

/** One request on a connection of its own. A body that is not a text is sent as JSON. */
function ask(
  { host, port }: HostPort,
  method: string,
  path: string,
  asked: Asked,
): Promise<Answered> {
  const { body, token = "", fields = {} } = asked;
  // A listener on all addresses, of whatever family, has that of loopback too.
  const reached = host === "::1" ? host : "127.0.0.1";
  const headers: Record<string, string> = { ...fields };
  if (token !== "") headers.Authorization ??= `Bearer ${token}`;
  const writes = method !== "GET" && method !== "HEAD";
  if (writes) headers["Content-Type"] ??= "application/json";
  const sent = body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body);
  if (sent !== "") headers["Content-Length"] ??= String(Buffer.byteLength(sent));
  return new Promise((resolve, reject) => {
    const request = httpRequest({ host: reached, port, method, path, headers, agent: false });
    request.once("error", reject);
    request.once("response", (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk: Buffer) => chunks.push(chunk));
      response.once("error", reject);
      response.once("end", () => {
        const text = Buffer.concat(chunks).toString();
        const { statusCode: status = 0, headers: got } = response;
        resolve({ status, fields: got, text, json: () => JSON.parse(text) });
      });
    });
    request.end(sent === "" ? undefined : sent);
  });
}
