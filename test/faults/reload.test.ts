import assert from "node:assert/strict";
import { readFile, writeFile } from "node:fs/promises";
import { test } from "vitest";
import { freshMetrics } from "../admin/scrape.ts";
import { startTestUpstream } from "../support/gateway/backend.ts";
import { startTestGateway } from "../support/gateway/house.ts";
import { startLoad } from "../support/gateway/load.ts";
import { KEY, type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { rssBytes } from "./process-memory.ts";

/** 1,000 on demand: TOLLGATE_RELOADS=1000. */
const RELOADS = Number(process.env.TOLLGATE_RELOADS ?? 200);
const MEBIBYTE = 1024 ** 2;
/** So many reloads under load take a machine that is busy with other things several minutes. */
const SLOW_MS = 600_000;
/** Half a file, as an editor leaves it; a value that cannot be. */
const MISTAKES = ["plans: {", "plans: { free: 0 }\n"];

function metrics({ adminUrl }: SpawnedGateway): Promise<Map<string, number>> {
  return freshMetrics(adminUrl);
}

test(`2.4 SIGHUP with a bad config: ${RELOADS} reloads, good and bad in turn, at 500 rps: no failed request, counts unchanged, memory flat`, {
  timeout: SLOW_MS,
}, async (t) => {
  await using backend = await startTestUpstream();
  // A small heap is full soon, and then flat: else it would grow for as long as it may.
  const env = { NODE_OPTIONS: "--max-old-space-size=48 --max-semi-space-size=2" };
  await using served = await spawnGateway({ upstreams: [backend.origin], run: { env } });
  const load = startLoad(`${served.url}/v1/pets`, KEY, 500);
  const resident: number[] = [];
  const startMs = performance.now();
  for (let i = 0; i < RELOADS; i++) {
    const plans = { vectors: { minute: 10 ** 9, month: 10 ** 9 - i }, free: { minute: 60 + i } };
    if (i % 2 === 0) await served.rewrite({ plans });
    else await writeFile(served.file, MISTAKES[(i >> 1) % MISTAKES.length] ?? "");
    const response = await fetch(`${served.adminUrl}/api/reload`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
    });
    assert.equal(response.status, i % 2 === 0 ? 200 : 422, await response.text());
    if (i % 10 === 9) resident.push(rssBytes(served));
  }
  await served.rewrite({});
  const went = await load.stop();
  const seconds = (performance.now() - startMs) / 1_000;
  assert.deepEqual(
    went.filter((one) => !("status" in one) || one.status !== 200),
    [],
  );
  assert.ok(went.length > 500, `${went.length} requests`);
  await eventually(() => assert.equal(served.lines.length, went.length));
  assert.equal(await served.counted(), went.length, "each is counted once, through all reloads");
  assert.equal(backend.seen.length, went.length);

  const early = Math.max(...resident.slice(3, 8));
  const late = Math.min(...resident.slice(-5));
  const grown = (late - early) / MEBIBYTE;
  t.annotate(
    `${went.length} requests in ${seconds.toFixed(1)} s (${(went.length / seconds).toFixed(0)} rps), ` +
      `resident ${grown.toFixed(1)} MiB later`,
  );
  assert.ok(grown < 25, `${grown} MiB more`);
  const told = await metrics(served);
  assert.ok((told.get('tollgate_config_reloads_total{result="failure"}') ?? 0) >= RELOADS / 2);
  const mistake = served.said.find(({ kind }) => kind === "config_refused");
  assert.match(String(mistake?.why), /tollgate\.yaml:\d+:\d+: /, "file and line are told");
  const active = [...told.keys()].filter((name) => name.startsWith("tollgate_config_info"));
  const shown = await (await fetch(`${served.adminUrl}/api/config`)).json();
  assert.deepEqual(active, [`tollgate_config_info{hash="${(shown as { hash: string }).hash}"}`]);
});

test("2.4 SIGHUP with a bad config: over 1 MiB it is refused unread, up to that it is read", async () => {
  await using house = await startTestGateway();
  const { key } = await house.issue();
  const text = await readFile(house.file, "utf8");
  for (const [bytes, ok] of [
    [MEBIBYTE, true],
    [MEBIBYTE + 1, false],
  ] as const) {
    const padding = "x".repeat(bytes - Buffer.byteLength(text) - 2);
    await writeFile(house.file, `${text}#${padding}\n`);
    const reloaded = await house.gateway.reload();
    assert.equal(reloaded.ok, ok, JSON.stringify(reloaded));
    assert.equal((await house.ask(key)).status, 200);
  }
});

test("2.4 SIGHUP with a changed plan: it keeps its counts: Remaining is max(0, new limit - used) from the next request on", async () => {
  await using house = await startTestGateway();
  const { key } = await house.issue();
  const remaining = async () => Number((await house.ask(key)).headers.get("x-ratelimit-remaining"));
  const limit = async (day: number) => {
    await house.rewrite({ plans: { free: { day }, enterprise: "custom" } });
    const reloaded = await house.gateway.reload();
    assert.ok(reloaded.ok, JSON.stringify(reloaded));
  };
  await limit(10);
  for (const left of [9, 8, 7, 6]) assert.equal(await remaining(), left);
  await limit(100);
  assert.equal(await remaining(), 95);
  await limit(6);
  assert.equal(await remaining(), 0);
  const over = await house.ask(key);
  assert.deepEqual([over.status, over.headers.get("x-ratelimit-limit")], [429, "6"]);
  await limit(3);
  const under = await house.ask(key);
  assert.deepEqual([under.status, under.headers.get("x-ratelimit-remaining")], [429, "0"]);
  await limit(8);
  assert.equal(await remaining(), 1);
  await house.law();
});
