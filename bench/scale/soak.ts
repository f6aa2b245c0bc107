import { readdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { samplesOf } from "../../test/admin/scrape.ts";
import { type SpawnedGateway, spawnGateway } from "../../test/support/gateway/served.ts";
import { startRedis, type TestRedis } from "../../test/support/redis/redis.ts";
import { residentBytes } from "../stage/cpu.ts";
import { say } from "./house.ts";
import { openForgetfulBackend, startTraffic } from "./traffic.ts";

/**
 * npm run soak [-- --minutes N --rate N]: a gateway on a Redis, an hour of a bit of everything:
 * requests, refusals, bans, bodies, tunnels, clients that leave, reloads, keys that come and go, a
 * Redis that stands still. Every ten seconds its memory, open files and timers; the exit status is 1
 * where the end has more of them than the beginning.
 */
const { values } = parseArgs({
  options: {
    minutes: { type: "string", default: "60" },
    rate: { type: "string", default: "60" },
  },
});
const minutes = Number(values.minutes);
const SAMPLE_MS = 10_000;

type Sample = {
  readonly seconds: number;
  readonly rssMb: number;
  readonly heapMb: number;
  readonly files: number;
  readonly timers: number;
};

async function sample(served: SpawnedGateway, seconds: number): Promise<Sample> {
  const text = await (await fetch(`${served.adminUrl}/metrics`)).text();
  const metrics = new Map(samplesOf(text));
  const { pid } = served.running;
  return {
    seconds,
    rssMb: residentBytes([pid]) / 1e6,
    heapMb: (metrics.get("nodejs_heap_size_used_bytes") ?? Number.NaN) / 1e6,
    files: readdirSync(`/proc/${pid}/fd`).length,
    timers: metrics.get('nodejs_active_resources{type="Timeout"}') ?? 0,
  };
}

async function post(served: SpawnedGateway, path: string, body: unknown = {}): Promise<unknown> {
  const response = await fetch(served.adminUrl + path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
  return response.json();
}

type Issued = { readonly id: string; readonly key: string };
const issue = (served: SpawnedGateway, plan: string) =>
  post(served, "/api/keys", { environment: "production", plan }) as Promise<Issued>;

/** Changes of keys and configuration, and now and then a Redis that stands still. */
async function disturb(served: SpawnedGateway, redis: TestRedis, seconds: number): Promise<void> {
  if (seconds % 20 === 0) {
    await post(served, "/api/reload");
    const { id } = await issue(served, "free");
    const next = (await post(served, `/api/keys/${id}/rotate`)) as Issued;
    await post(served, `/api/keys/${id}/revoke`);
    await post(served, `/api/keys/${next.id}/revoke`);
  }
  if (seconds % 60 === 50) {
    redis.stop();
    await sleep(1_500);
    redis.cont();
  }
}

function median(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
}

/** The end against the beginning, once the first quarter has warmed the process up. */
function judge(samples: readonly Sample[]): string[] {
  const warm = samples.slice(Math.ceil(samples.length / 4));
  const third = Math.floor(warm.length / 3);
  const rows = [
    ["resident MB", (one: Sample) => one.rssMb, 1.08, 6],
    ["heap MB", (one: Sample) => one.heapMb, 1.15, 6],
    ["open files", (one: Sample) => one.files, 1, 8],
    ["timers", (one: Sample) => one.timers, 1, 5],
  ] as const;
  return rows.flatMap(([name, of, factor, more]) => {
    const begin = median(warm.slice(0, third).map(of));
    const end = median(warm.slice(-third).map(of));
    say(`${name}: ${begin.toFixed(1)} at the beginning, ${end.toFixed(1)} at the end`);
    return end > begin * factor + more ? [name] : [];
  });
}

async function soak(): Promise<number> {
  const redis = await startRedis();
  const backend = await openForgetfulBackend();
  const plans = { free: { minute: 60, month: 10 ** 9 }, big: { month: 10 ** 9 } };
  const limits = { drain: "2s" };
  await using served = await spawnGateway({
    upstreams: [backend.origin],
    api: null,
    config: {
      store: redis.url,
      plans: { ...plans, vectors: { month: 10 ** 9 } },
      bans: {},
      limits,
    },
  });
  const keys: string[] = [];
  for (let i = 0; i < 40; i++) keys.push((await issue(served, i < 4 ? "free" : "big")).key);
  const traffic = startTraffic(`${served.url}/v1/pets`, keys, Number(values.rate));
  const samples: Sample[] = [];
  const startMs = performance.now();
  for (let tick = 1; tick <= (minutes * 60_000) / SAMPLE_MS; tick++) {
    await sleep(Math.max(0, startMs + tick * SAMPLE_MS - performance.now()));
    const seconds = (tick * SAMPLE_MS) / 1_000;
    const one = await sample(served, seconds);
    samples.push(one);
    const figures = `${one.rssMb.toFixed(1)} MB, heap ${one.heapMb.toFixed(1)} MB, ${one.files} files, ${one.timers} timers`;
    say(`${String(seconds).padStart(5)} s  ${figures}  ${JSON.stringify(traffic.tally)}`);
    await disturb(served, redis, seconds);
  }
  await traffic.stop();
  const grown = judge(samples);
  const { code } = await served.running.stop();
  backend.close();
  await redis.close();
  say(grown.length === 0 ? "flat" : `grows: ${grown.join(", ")}`);
  return grown.length === 0 && code === 0 ? 0 : 1;
}

process.exitCode = await soak();
