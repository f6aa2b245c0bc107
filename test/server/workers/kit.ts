import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { Agent, request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freshMetrics } from "../../admin/scrape.ts";
import { runVerb } from "../../cli/kit.ts";
import {
  type RequestListener,
  startTestUpstream,
  type TestUpstream,
} from "../../support/gateway/backend.ts";
import {
  type RunningProcess,
  type RunOptions,
  startTollgate,
} from "../../support/gateway/processes.ts";
import { isAlive } from "../../support/is-alive.ts";
import { eventually } from "../../support/poll.ts";
import type { TestRedis } from "../../support/redis/redis.ts";

/** A gateway of several processes, started as an operator starts it, and a backend behind it. */
export type Crew = AsyncDisposable & {
  readonly gateway: RunningProcess;
  readonly backend: TestUpstream;
  readonly url: string;
  readonly adminUrl: string;
  readonly file: string;
  /** The process ids of workers that were told to serve and have not been lost. */
  pids(): number[];
  /** Rewrites the configuration; a text replaces it whole. */
  rewrite(change: Change | string): Promise<void>;
  reload(): Promise<{ status: number; body: Record<string, unknown> }>;
  /** The sum of all series of a metric, at a new scrape. */
  metric(name: string): Promise<number>;
  ready(): Promise<{ status: number; checks: Record<string, { ok: boolean; why?: string }> }>;
};

export type Change = {
  readonly workers?: number | "auto";
  readonly limit?: number;
  readonly drain?: string;
  readonly listen?: string;
  readonly onStoreFailure?: "local" | "deny";
  readonly storeTimeout?: string;
  readonly keys?: string;
  readonly healthCheck?: { readonly path: string; readonly every: string };
  readonly telemetry?: { readonly otlp: string; readonly sample: number };
  readonly events?: Readonly<Record<string, unknown>>;
  readonly level?: "info" | "warn";
};

export type Folder = AsyncDisposable & {
  readonly file: string;
  write(change: Change): Promise<void>;
};

/** A configuration on a Redis that holds the keys too, so that they are issued once for all tests. */
export async function openFolder(redis: Pick<TestRedis, "url">, upstream: string): Promise<Folder> {
  const path = await mkdtemp(join(tmpdir(), "tollgate-workers-"));
  const file = join(path, "tollgate.yaml");
  return {
    file,
    write: (change) => writeFile(file, configText(redis, upstream, change)),
    [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }),
  };
}

function configText({ url }: Pick<TestRedis, "url">, upstream: string, change: Change): string {
  const { workers = 2, limit = 1_000_000, drain = "5s", listen = "127.0.0.1:0" } = change;
  // A machine of tests stalls for longer than the 50 ms that a store has by default.
  const { onStoreFailure = "local", storeTimeout = "1s", telemetry, level = "info" } = change;
  const { keys = "redis", healthCheck, events } = change;
  const check = healthCheck === undefined ? "" : `, healthCheck: ${JSON.stringify(healthCheck)}`;
  return `store: ${url}
storeTimeout: ${storeTimeout}
onStoreFailure: ${onStoreFailure}
keys: ${keys}
stateFile: ./state.json
workers: ${workers}
environments:
  production: { listen: "${listen}", basePath: /v1, keyTag: live, upstreams: ["${upstream}"]${check} }
plans: { free: { month: ${limit} } }
limits: { drain: ${drain} }
admin: { listen: "127.0.0.1:0" }
log: { level: ${level} }
telemetry: ${telemetry === undefined ? "off" : JSON.stringify(telemetry)}
events: ${events === undefined ? "off" : JSON.stringify(events)}
`;
}

/** So many keys, each of an account of its own. */
export async function issueKeys(redis: TestRedis, count: number): Promise<string[]> {
  await using folder = await openFolder(redis, "http://127.0.0.1:9");
  await folder.write({});
  const args = ["keys", "create", "--env", "production", "--plan", "free", "--json"];
  const more = ["--count", String(count), "--config", folder.file];
  // A busy machine takes longer to connect than a command waits, which then has changed nothing.
  const made = await eventually(async () => {
    const { out, err } = await runVerb([...args, ...more]);
    assert.equal(err, "");
    return out;
  });
  return (JSON.parse(made) as { key: string }[]).map(({ key }) => key);
}

export async function openCrew(
  redis: TestRedis,
  change: Change = {},
  answer?: RequestListener,
  run?: RunOptions,
): Promise<Crew> {
  const backend = await startTestUpstream(answer);
  const folder = await openFolder(redis, backend.origin);
  await folder.write(change);
  const gateway = startTollgate(["start", "--config", folder.file], run);
  const line = await gateway.line(({ msg }) => msg === "serving");
  const { urls, admin } = line as { urls: Record<string, string>; admin: string };
  return {
    gateway,
    backend,
    url: urls.production ?? "",
    adminUrl: admin,
    file: folder.file,
    pids: () => pidsOf(gateway),
    rewrite: (next) => {
      return typeof next === "string" ? writeFile(folder.file, next) : folder.write(next);
    },
    reload: async () => {
      const headers = { "Content-Type": "application/json" };
      const response = await fetch(`${admin}/api/reload`, { method: "POST", headers, body: "{}" });
      return { status: response.status, body: (await response.json()) as Record<string, unknown> };
    },
    metric: async (name) => {
      const samples = [...(await freshMetrics(admin))];
      const ofName = samples.filter(([series]) => series.split("{", 1)[0] === name);
      return ofName.reduce((sum, [, value]) => sum + value, 0);
    },
    ready: async () => {
      const response = await fetch(`${admin}/readyz`);
      const { checks } = (await response.json()) as Awaited<ReturnType<Crew["ready"]>>;
      return { status: response.status, checks };
    },
    [Symbol.asyncDispose]: async () => {
      // One that a failed test leaves stopped would hold the output, and so the end.
      for (const pid of everServed(gateway).filter(isAlive)) process.kill(pid, "SIGCONT");
      await gateway.stop();
      await backend.close();
      await folder[Symbol.asyncDispose]();
    },
  };
}

function everServed(gateway: RunningProcess): number[] {
  const serves = gateway.lines().filter(({ msg }) => msg === "worker_serves");
  return serves.map(({ pid }) => Number(pid));
}

export function pidsOf(gateway: RunningProcess): number[] {
  const pids = new Set<number>();
  for (const { msg, pid } of gateway.lines()) {
    if (msg === "worker_serves") pids.add(Number(pid));
    if (msg === "worker_lost") pids.delete(Number(pid));
  }
  return [...pids];
}

export type Outcome = {
  /** 0 where there was no answer. */
  readonly status: number;
  readonly limit: number;
  readonly code: string | undefined;
  readonly endedMs: number;
};

/** One request; never rejects. Without an agent it has a connection of its own. */
export function get(url: string, key: string, agent?: Agent): Promise<Outcome> {
  return new Promise((resolve) => {
    const headers = { Authorization: `Bearer ${key}` };
    const end = (status: number, limit: number, code?: string) => {
      resolve({ status, limit, code, endedMs: performance.now() });
    };
    const sent = request(url, { headers, agent: agent ?? false }, (response) => {
      response.resume();
      response.once("error", () => end(0, 0, "CUT"));
      response.once("end", () => {
        end(response.statusCode ?? 0, Number(response.headers["x-ratelimit-limit"]));
      });
    });
    sent.once("error", (error: NodeJS.ErrnoException) => end(0, 0, error.code));
    sent.end();
  });
}

export type Load = { readonly outcomes: readonly Outcome[]; end(): Promise<readonly Outcome[]> };

/** Asks without pause over so many kept connections, until it is ended. */
export function startLoad(url: string, key: string, connections: number): Load {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const outcomes: Outcome[] = [];
  let going = true;
  const all = Array.from({ length: connections }, async () => {
    while (going) {
      const outcome = await get(url, key, agent);
      outcomes.push(outcome);
      // Where nobody listens the next attempt fails at once too: that must not be all there is.
      if (outcome.code === "ECONNREFUSED") await new Promise((resolve) => setTimeout(resolve, 10));
    }
  });
  return {
    outcomes,
    end: async () => {
      going = false;
      await Promise.all(all);
      agent.destroy();
      return outcomes;
    },
  };
}
