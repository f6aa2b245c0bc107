import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stringify } from "yaml";
import { loadConfig } from "../../../src/config/load/load.ts";
import { digestKey } from "../../../src/core/keys/key.ts";
import type { GatewayHandle } from "../../../src/server/process/gateway-handle.ts";
import { newGatewayName } from "../../../src/server/process/identity.ts";
import { startGateway } from "../../../src/server/start.ts";
import { encodeKeyFile } from "../../../src/stores/keys/file/file-format.ts";
import type { AccessLogEntry } from "../../../src/telemetry/log/access-log-entry.ts";
import { createLog } from "../../../src/telemetry/log/log.ts";
import { eventually } from "../poll.ts";
import { type GivenKey, recordsFrom } from "../records.ts";
import { startTestUpstream, type TestUpstream } from "./backend.ts";
import { PETS } from "./pets-routes.ts";

/** The differences from the configuration below; objects are merged, member by member. */
export type TestGatewayOptions = {
  readonly config?: Readonly<Record<string, unknown>>;
  /** Keys of the environment `production`; `api: null` serves without a description. */
  readonly environment?: Readonly<Record<string, unknown>>;
  /** Default: the routes of the pets description of the repository. */
  readonly api?: string;
  readonly backend?: TestUpstream;
  /** Served in place of the recording backend; closed with the house. */
  readonly upstream?: Upstream;
  /** Keys that are in the key file before the start, by their text: each one's record. */
  readonly keys?: Readonly<Record<string, GivenKey>>;
  /** Further files in the directory of the configuration, by name. */
  readonly files?: Readonly<Record<string, string>>;
  readonly now?: () => number;
};

/** The server that a gateway forwards to: `seen` grows by one with each request. */
export type Upstream = {
  readonly origin: string;
  readonly seen: readonly unknown[];
  close(): Promise<void>;
};

export type IssuedKey = {
  readonly id: string;
  readonly key: string;
  readonly account: string;
  readonly plan: string;
};

export type TestGateway = AsyncDisposable & {
  readonly gateway: GatewayHandle;
  readonly backend: TestUpstream;
  /** The recording backend, or what is served in its place. */
  readonly upstream: Upstream;
  readonly directory: string;
  readonly file: string;
  readonly port: number;
  readonly url: string;
  readonly adminUrl: string;
  /** Request lines of the log so far, and all other lines. */
  readonly lines: AccessLogEntry[];
  readonly said: Record<string, unknown>[];
  /** Issues keys through the admin API; by default one Free key of production. */
  issue(wanted?: Readonly<Record<string, unknown>>): Promise<IssuedKey>;
  admin(path: string, init?: RequestInit): Promise<Response>;
  /** GET /v1/pets and the like with a key, over a connection that is kept. */
  ask(key: string, path?: string, init?: RequestInit): Promise<Response>;
  /** Rewrites the configuration file; reloads when told to. */
  rewrite(config: Readonly<Record<string, unknown>>): Promise<void>;
  /**
   * The law (docs/reference/http.md#law): what was charged is what the store counted, and the
   * backend saw what was forwarded, exactly, or at most that where `connectionsFailed`.
   */
  law(options?: { readonly connectionsFailed?: boolean }): Promise<void>;
};

/** A whole gateway on free ports, with a recording backend, a key file and the memory store. */
export async function startTestGateway(options: TestGatewayOptions = {}): Promise<TestGateway> {
  const directory = await mkdtemp(join(tmpdir(), "tollgate-"));
  const file = join(directory, "tollgate.yaml");
  const backend = options.backend ?? (await startTestUpstream());
  const upstream = options.upstream ?? backend;
  const text = (over: Readonly<Record<string, unknown>>) => {
    const base = configOf(upstream, options);
    return stringify(withLongStoreTimeout({ ...base, ...options.config, ...over }));
  };
  await writeFile(file, text({}));
  await writeFile(join(directory, "keys.json"), [...encodeKeyFile(recordsOf(options))].join(""));
  for (const [name, content] of Object.entries(options.files ?? {})) {
    await writeFile(join(directory, name), content);
  }

  const { gateway, lines, said } = await startFrom(file, options);
  const url = gateway.urls.production ?? "";
  const adminUrl = gateway.adminUrl ?? "";

  const admin: TestGateway["admin"] = (path, init = {}) => {
    const headers = { "Content-Type": "application/json", ...init.headers };
    return fetch(`${adminUrl}${path}`, { ...init, headers });
  };
  const house: TestGateway = {
    gateway,
    backend,
    upstream,
    directory,
    file,
    url,
    adminUrl,
    port: Number(new URL(url).port),
    lines,
    said,
    admin,
    issue: async (wanted = {}) => {
      const body = JSON.stringify({ environment: "production", plan: "free", ...wanted });
      const response = await admin("/api/keys", { method: "POST", body });
      assert.equal(response.status, 201, await response.clone().text());
      return (await response.json()) as IssuedKey;
    },
    ask: (key, path = "/v1/pets", init = {}) => {
      const headers = { Authorization: `Bearer ${key}`, ...init.headers };
      return fetch(`${url}${path}`, { ...init, headers });
    },
    rewrite: (config) => writeFile(file, text(config)),
    law: (bounds = {}) => checkLaw(house, bounds.connectionsFailed ?? false),
    [Symbol.asyncDispose]: async () => {
      await gateway.stop();
      await upstream.close();
      await backend.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
  return house;
}

/**
 * A machine of tests stalls for longer than the 50 ms that a store has by default, and a gateway then
 * counts by itself. A test of just that says `storeTimeout` itself.
 */
export function withLongStoreTimeout<T extends Readonly<Record<string, unknown>>>(config: T): T {
  const { store = "memory", storeTimeout } = config;
  return store === "memory" || storeTimeout !== undefined
    ? config
    : { ...config, storeTimeout: "1s" };
}

/** Starts what the file says, and sorts its log: request lines, and all others. */
async function startFrom(file: string, options: Pick<TestGatewayOptions, "now">) {
  const lines: AccessLogEntry[] = [];
  const said: Record<string, unknown>[] = [];
  const log = createLog(
    { write: (line) => sort(line, lines, said) },
    "debug",
    undefined,
    options.now,
  );
  const load = () => loadConfig(file, {});
  const loaded = await load();
  assert.ok(loaded.ok, JSON.stringify(loaded));
  const now = options.now === undefined ? {} : { now: options.now };
  const gateway = await startGateway(loaded.config, {
    log,
    gateway: newGatewayName(),
    load,
    ...now,
  });
  return { gateway, lines, said };
}

function recordsOf({ keys = {} }: TestGatewayOptions) {
  return recordsFrom(
    Object.entries(keys).map(([key, given]) => ({ digest: digestKey(key), ...given })),
  );
}

function configOf(upstream: Upstream, { environment, api = PETS }: TestGatewayOptions) {
  const production: Record<string, unknown> = {
    listen: "127.0.0.1:0",
    basePath: "/v1",
    keyTag: "live",
    api,
    upstreams: [upstream.origin],
    ...environment,
  };
  if (production.api === null) delete production.api;
  return {
    store: "memory",
    stateFile: "./state.json",
    keys: "./keys.json",
    environments: { production },
    plans: {
      free: { minute: 60, day: 1000 },
      pro: { minute: 300, day: 10000 },
      business: { minute: 1000, day: 100000 },
      enterprise: "custom",
    },
    admin: { listen: "127.0.0.1:0" },
    rateLimitFields: "ietf",
    log: { level: "debug" },
    limits: { drain: "1s" },
  };
}

function sort(line: string, lines: AccessLogEntry[], said: Record<string, unknown>[]): void {
  const parsed = JSON.parse(line) as Record<string, unknown>;
  if (parsed.msg === "request") lines.push(parsed as unknown as AccessLogEntry);
  else said.push(parsed);
}

type Usage = { readonly windows: readonly { readonly window: string; readonly used: number }[] };

async function checkLaw(house: TestGateway, connectionsFailed: boolean): Promise<void> {
  await eventually(() => {
    const forwards = house.lines.reduce((sum, entry) => sum + entry.forwards, 0);
    const seen = house.upstream.seen.length;
    if (connectionsFailed) assert.ok(seen <= forwards, `${seen} seen, ${forwards} forwarded`);
    else assert.equal(seen, forwards, "the backend saw what was forwarded");
  });
  // A client has its answer before the line of the request is sure to be written. A store that was
  // late for a busy machine is told what was admitted meanwhile when it is back.
  for (const account of new Set(house.lines.map((entry) => entry.account))) {
    if (account === undefined) continue;
    await eventually(() => checkCounts(house, account), { withinMs: 10_000 });
  }
  // A test in which nothing was asked may end with the law, too: it says what there must not be.
  const untrue = house.lines.filter(({ forwards, decision, method }) => {
    return (
      (forwards > 0 && decision !== "admitted") ||
      (forwards > 1 && !["GET", "HEAD"].includes(method))
    );
  });
  assert.deepEqual(
    untrue,
    [],
    "what was forwarded was admitted, and sent twice only where that is safe",
  );
}

async function checkCounts(house: TestGateway, account: string): Promise<void> {
  const response = await house.admin(`/api/usage/${encodeURIComponent(account)}`);
  // An account whose plan is missing has no windows, and nothing can be charged to it.
  const { windows = [{ window: "none", used: 0 }] } = (await response.json()) as Partial<Usage>;
  const longest = windows.findLast(({ window }) => !window.includes("."));
  const own = house.lines.filter((entry) => entry.account === account);
  const units = own.reduce((sum, { charged }) => sum + charged, 0);
  assertCounted(house, account, longest?.used, units, "was charged what the store counted");
  await checkDays(house, account, units);
}

/**
 * Claims that the store counted what was charged to an account. It may have counted more by what a
 * line names as uncertain: a machine that stalls loses answers of calls that were carried out.
 */
export function assertCounted(
  { said }: Pick<TestGateway, "said">,
  account: string,
  counted: number | undefined,
  charged: number,
  claim: string,
): void {
  const lines = said.filter(({ msg }) => msg === "charges_uncertain");
  const named = lines.flatMap(({ accounts }) => String(accounts).split(", "));
  const own = named.filter((text) => text.startsWith(`production:${account} `));
  const uncertain = own.reduce((sum, text) => sum + Number(text.split(" ").at(-1)), 0);
  const found = `${account} ${claim}: ${uncertain} units are uncertain`;
  if (counted === undefined || counted < charged || counted > charged + uncertain) {
    assert.equal(counted, charged, found);
  }
}

/** Where days are kept, those of the account sum to what it was charged. */
async function checkDays(house: TestGateway, account: string, units: number): Promise<void> {
  const id = encodeURIComponent(account);
  const response = await house.admin(`/api/history?days=3660&account=${id}`);
  const days = (await response.json()) as { readonly units: number }[];
  if (response.status !== 200) return;
  const sum = days.reduce((all, day) => all + day.units, 0);
  assertCounted(house, account, sum, units, "was charged the sum of its days");
}
