import { randomUUID } from "node:crypto";
import { openSync } from "node:fs";
import { join } from "node:path";
import type { KeyRecord } from "../../src/core/keys/records.ts";
import { accessLogEntry } from "../../src/gateway/exchange/access-log.ts";
import { Exchange } from "../../src/gateway/exchange/exchange.ts";
import { ActivityRecorder } from "../../src/server/events/activity-recorder.ts";
import { openLogPipe } from "../../src/server/process/log-pipe.ts";
import type { ActivityStore } from "../../src/stores/quotas/activity-store.ts";
import { RecentRefusals } from "../../src/telemetry/history/diagnostics.ts";
import { createLog } from "../../src/telemetry/log/log.ts";
import { createMetricsRecorder } from "../../src/telemetry/metrics/metrics-recorder.ts";
import type { LineFound, RunOptions } from "../report/report.ts";
import type { Stage } from "../stage/stage.ts";
import { LIMITS } from "../variants/variant.ts";
import { median, noiseOf } from "./statistics.ts";

const RUNS = 9;
/** Requests of a run, where the warm-up has as many. */
const REQUESTS_MAX = 50_000;
/** Requests that end before the event loop has its turn. */
const AT_ONCE = 100;
const ACCOUNTS = 1_000;

/**
 * The log line and the metrics of a request by themselves: the code that runs when an exchange ends,
 * with the writing of the log to a file, in a loop. Microseconds of CPU of all threads a request.
 */
export async function measureLine(stage: Stage, options: RunOptions): Promise<LineFound> {
  const tell = await openTelling(stage);
  const exchanges = Array.from({ length: ACCOUNTS }, (_, i) => exchangeOf(i));
  await run(exchanges, tell, options.warmUpRequests);
  const requests = Math.min(REQUESTS_MAX, options.warmUpRequests);
  const found: number[] = [];
  for (let i = 0; i < RUNS; i++) {
    const before = process.cpuUsage();
    await run(exchanges, tell, requests);
    const { user, system } = process.cpuUsage(before);
    found.push((user + system) / requests);
  }
  return { us: median(found), noise: noiseOf([found]) };
}

/** Twice a minute, and in a few calls: none of it is the cost of a request. */
const NOTHING: ActivityStore = {
  addRefused: async () => [],
  addUsed: async () => {},
  addCalls: async () => ({ sums: [], left: [] }),
  lastUsed: async () => new Map(),
  calls: async () => [],
};

type Telling = { line(exchange: Exchange): void; flush(): Promise<unknown> };

/** The listeners of a request's line, as a gateway of one process has them. */
async function openTelling(stage: Stage): Promise<Telling> {
  const pipe = openLogPipe(openSync(join(await stage.folder(), "line.log"), "a"));
  const log = createLog(pipe, "info");
  const metrics = createMetricsRecorder();
  const diagnostics = new RecentRefusals({ open: () => [], tellStore: async () => {} });
  const activityRecorder = new ActivityRecorder({
    activityStore: NOTHING,
    keepsDays: () => false,
    now: Date.now,
    deprecated: () => [],
    storeTimeoutMs: () => 50,
  });
  return {
    line: (exchange) => {
      const entry = accessLogEntry(exchange, performance.now());
      metrics.request(entry, exchange);
      diagnostics.add(entry, exchange.caller?.id);
      activityRecorder.request(entry);
      log.request(entry);
    },
    flush: () => pipe.flush(10_000),
  };
}

async function run(exchanges: readonly Exchange[], tell: Telling, requests: number): Promise<void> {
  for (let i = 0; i < requests; i++) {
    tell.line(exchanges[i % ACCOUNTS] as Exchange);
    if (i % AT_ONCE === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await tell.flush();
}

/** An exchange as it is when an admitted request has been answered. */
function exchangeOf(i: number): Exchange {
  const id = `account-${i}`;
  const request = { method: "GET", target: "/v1/pets?limit=20", rawHeaders: [] };
  const parts = { request, response: { headWritten: true, status: 200 }, connection: {} };
  const startedMs = performance.now();
  const peer = "127.0.0.1";
  const times = { beganMs: startedMs, startedMs };
  const arrival = { id: randomUUID(), ...times, peer, client: peer, onlyEnvironment: undefined };
  const exchange = new Exchange(
    parts as unknown as ConstructorParameters<typeof Exchange>[0],
    { ...arrival, upgrade: undefined, closesConnection: false },
    () => {},
  );
  const environment = { name: "production", foreignKeys: [], logMeta: [], config: "0a1b2c3d" };
  const match = { template: "/v1/pets", cost: 1 };
  const key = { id: `key-${i}` };
  Object.assign(exchange, { environment, route: { path: "/v1/pets", match, service: undefined } });
  const caller = { id: `production:${id}`, owner: undefined, account: id, plan: "big" };
  exchange.identify({ ...caller, key: key as KeyRecord });
  const rateLimitInfo = { limit: LIMITS.minute, remaining: LIMITS.minute - i, resetMs: Date.now() };
  const charged = { charged: 1, rateLimitInfo, decidedMs: Date.now(), strikes: 0 };
  exchange.setDecision({ outcome: "admitted", ...charged });
  exchange.tryAt("http://127.0.0.1:9000");
  exchange.countForward();
  exchange.startResponse(0, startedMs);
  return exchange;
}
