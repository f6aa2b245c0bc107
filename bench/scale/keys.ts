import { setTimeout as sleep } from "node:timers/promises";
import type { Records } from "../../src/core/keys/records.ts";
import { openRedisKeyStore } from "../../src/stores/keys/redis/redis-key-store.ts";
import { eventually } from "../../test/support/poll.ts";
import { startRedis, type TestRedis } from "../../test/support/redis/redis.ts";
import { type Gateway, makeKeys, say, startGateway } from "./house.ts";
import { openForgetfulBackend } from "./traffic.ts";

const STALL_MS_MAX = 20;
/** How often each change is made: garbage is collected in some of them. */
const TIMES = 5;
/** Records that are put into Redis together. */
const AT_ONCE = 10_000;
const WATCH = new URL("watch-loop.mjs", import.meta.url).pathname;

/** The processor time that one turn of a gateway's event loop took at most since it was asked last. */
async function stallMs({ running }: Gateway): Promise<number> {
  const before = running.stderr().length;
  running.child.kill("SIGUSR2");
  return eventually(() => {
    const told = /stall ([\d.]+) ms/.exec(running.stderr().slice(before));
    return told === null ? false : Number(told[1]);
  }) as Promise<number>;
}

async function call({ adminUrl }: Gateway, method: string, path: string, body?: unknown) {
  const response = await fetch(adminUrl + path, {
    method,
    headers: { "Content-Type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text.slice(0, 200)}`);
  return { body: JSON.parse(text) as Record<string, string>, link: response.headers.get("link") };
}

async function listAll(gateway: Gateway): Promise<number> {
  let pages = 0;
  for (let path: string | undefined = "/api/keys?limit=1000"; path !== undefined; pages++) {
    const { link } = await call(gateway, "GET", path);
    path = /<([^>]+)>; rel="next"/.exec(link ?? "")?.[1];
  }
  return pages;
}

/** Does something to several keys, one after the other; `i` is their number. */
function times(work: (i: number) => Promise<unknown>): () => Promise<void> {
  return async () => {
    for (let i = 0; i < TIMES; i++) await work(i);
  };
}

type Work = readonly [name: string, work: () => Promise<unknown>];

function worksOn(gateway: Gateway, first: string): readonly Work[] {
  const post = (path: string, body: unknown) => call(gateway, "POST", path, body);
  const wanted = { environment: "production", plan: "free" };
  return [
    ["nothing", () => sleep(3_000)],
    ["listed whole", () => listAll(gateway)],
    ["issued", times(() => post("/api/keys", wanted))],
    ["1,000 issued at once", () => post("/api/keys", { ...wanted, count: 1_000 })],
    ["rotated", times((i) => post(`/api/keys/k_free_${i}/rotate`, {}))],
    ["revoked", times((i) => post(`/api/keys/k_free_${10 + i}/revoke`, {}))],
    [
      "a key changed",
      times((i) => call(gateway, "PATCH", "/api/keys/k_free_20", { name: `n${i}` })),
    ],
    [
      "an account changed",
      times((i) => call(gateway, "PATCH", "/api/accounts/free-3", { limits: { minute: 5 + i } })),
    ],
    ["all accounts listed", () => call(gateway, "GET", "/api/accounts?limit=1000")],
    ["found by its text", () => post("/api/keys/find", { key: first })],
    ["configuration reloaded", times(() => post("/api/reload", {}))],
    ["key records read anew", times(() => post("/api/keys/refresh", {}))],
  ];
}

/** Puts the records into Redis, as a command does. */
async function fill({ address }: TestRedis, records: Records): Promise<void> {
  const store = await openRedisKeyStore({ address, prefix: "tg", report: () => {}, watch: false });
  for (let count = AT_ONCE; count < records.keys.length + AT_ONCE; count += AT_ONCE) {
    const [keys, accounts] = [records.keys.slice(0, count), records.accounts.slice(0, count)];
    await store.change(() => ({ records: { keys, accounts }, result: undefined }));
  }
  await store.close();
}

/** One gateway that has so many keys in a file, or two that have them in Redis. */
async function openHouse(where: "file" | "redis", count: number) {
  await using opening = new AsyncDisposableStack();
  const backend = await openForgetfulBackend();
  opening.defer(() => backend.close());
  const keys = makeKeys([{ plan: "free", count }]);
  const plans = { free: { minute: 60, month: 10 ** 9 } };
  const common = { upstream: backend.origin, node: ["--import", WATCH] };
  const gateways: Gateway[] = [];
  if (where === "file") {
    const started = await startGateway({ ...common, keysText: keys.text, config: { plans } });
    gateways.push(opening.use(started));
  } else {
    const redis = await startRedis();
    opening.defer(() => redis.close());
    await fill(redis, keys.records);
    const config = { plans, store: redis.url, storeTimeout: "1s", keys: "redis" };
    for (let i = 0; i < 2; i++) {
      gateways.push(opening.use(await startGateway({ ...common, config })));
    }
  }
  return { gateways, first: keys.of("free")[0] ?? "", closing: opening.move() };
}

/** Gives what a gateway, or one that follows it, stood still for longer than is promised. */
async function measureIn(where: "file" | "redis", count: number): Promise<string[]> {
  const { gateways, first, closing } = await openHouse(where, count);
  await using _ = closing;
  const [gateway] = gateways as [Gateway];
  // The time that starting takes is no stall.
  for (const { adminUrl } of gateways) {
    await eventually(async () => (await fetch(`${adminUrl}/readyz`)).ok, { withinMs: 60_000 });
  }
  await sleep(3_000);
  const stalls = () => Promise.all(gateways.map(stallMs));
  await stalls();
  const worse: string[] = [];
  for (const [name, work] of worksOn(gateway, first)) {
    const startMs = performance.now();
    let failure = "";
    await work().catch((error: Error) => {
      failure = `, ${error.message}`;
    });
    const tookMs = performance.now() - startMs;
    // The file or Redis is read again by whoever watches it.
    await sleep(1_500);
    const told = (await stalls()).map((ms) => ms.toFixed(1)).join(" and ");
    say(`${where}: ${name}: ${tookMs.toFixed(0)} ms, the longest turn ${told} ms of CPU${failure}`);
    const isLong = told.split(" and ").some((ms) => Number(ms) >= STALL_MS_MAX);
    if (isLong || failure !== "") worse.push(`${where}: ${name}: ${told} ms${failure}`);
  }
  return worse;
}

/**
 * So many keys listed, changed and reloaded, in a file and in Redis: no turn of the event loop may
 * take 20 ms of CPU.
 */
export async function measureKeys(count: number): Promise<string[]> {
  return [...(await measureIn("file", count)), ...(await measureIn("redis", count))];
}
