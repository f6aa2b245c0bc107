import assert from "node:assert/strict";
import { test } from "vitest";
import { freshMetrics } from "../admin/scrape.ts";
import { startTestUpstream, type TestUpstream } from "../support/gateway/backend.ts";
import { KEY, type SpawnedGateway, spawnGateway } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { openClient, requestBytes, sendRequest } from "../support/wire/client.ts";

async function dropped({ adminUrl }: SpawnedGateway): Promise<number> {
  return (await freshMetrics(adminUrl)).get("tollgate_log_dropped_total") ?? Number.NaN;
}

/** The median of twenty requests, one after the other. */
async function medianMs({ port }: SpawnedGateway): Promise<number> {
  const tookMs: number[] = [];
  for (let i = 0; i < 20; i++) {
    const startMs = performance.now();
    assert.equal((await sendRequest(port, { key: KEY })).status, 200);
    tookMs.push(performance.now() - startMs);
  }
  return tookMs.sort((a, b) => a - b)[10] ?? Number.NaN;
}

/** Each line is a little over 2 KiB: 16 connections of 300 fill more than the pipe and 8 MiB. */
async function fillTheLog({ port }: SpawnedGateway, connections = 16): Promise<number> {
  const request = requestBytes({ path: `/v1/${"x".repeat(2_040)}` });
  const connection = async () => {
    await using client = await openClient(port);
    for (let i = 0; i < 12; i++) {
      client.write(Buffer.concat(Array<Buffer>(25).fill(request)));
      for (const { status } of await client.responses(Array<string>(25).fill("GET"), 30_000)) {
        assert.equal(status, 401);
      }
    }
  };
  await Promise.all(Array.from({ length: connections }, connection));
  return connections * 300;
}

/** A second signal ends a gateway whose log nobody reads. */
async function endAtOnce(served: SpawnedGateway, backend: TestUpstream): Promise<void> {
  served.running.child.stdout?.pause();
  await fillTheLog(served, 2);
  const before = backend.seen.length;
  backend.answer(() => {});
  const asked = sendRequest(served.port, { key: KEY }).catch(() => "cut");
  await eventually(() => assert.equal(backend.seen.length, before + 1));
  const exited = new Promise<unknown>((resolve) => served.running.child.once("exit", resolve));
  served.running.child.kill("SIGTERM");
  await eventually(async () => {
    assert.equal((await fetch(`${served.adminUrl}/readyz/production`)).status, 503);
  });
  const startMs = performance.now();
  served.running.child.kill("SIGINT");
  assert.equal(await exited, 130);
  assert.ok(performance.now() - startMs < 2_000, "a tenth of a second for the last lines");
  assert.equal(await asked, "cut");
}

test("2.4 Log pipe stuck: a log that nobody reads: 8 MiB wait, the rest is dropped and counted, nobody waits, and it ends", async (t) => {
  await using backend = await startTestUpstream();
  await using served = await spawnGateway({ upstreams: [backend.origin] });
  await using other = await startTestUpstream();
  await using read = await spawnGateway({ upstreams: [other.origin], limits: { drain: "60s" } });
  for (const gateway of [served, read]) await medianMs(gateway);
  served.running.child.stdout?.pause();
  const lines = await fillTheLog(served);
  const lost = await eventually(async () => {
    const count = await dropped(served);
    assert.ok(count > 0, `${count} dropped`);
    return count;
  });
  assert.ok(lost < lines, "what fits is kept");
  // Other work of the machine is in both, and not in each of ten rounds.
  type Round = readonly [stuckMs: number, readMs: number];
  const isSlower = ([stuckMs, readMs]: Round) => stuckMs > 1.1 * readMs + 1;
  const roundsMs: Round[] = [];
  let round: Round;
  do {
    round = [await medianMs(served), await medianMs(read)];
    roundsMs.push(round);
  } while (roundsMs.length < 10 && isSlower(round));
  const told = roundsMs.map((ms) => ms.map((one) => one.toFixed(1)).join(" beside ")).join(", ");
  t.annotate(
    `${lost} of ${lines} lines dropped; ms a request beside one whose log is read: ${told}`,
  );
  assert.ok(!isSlower(round), told);
  const asked = 20 * (1 + roundsMs.length);
  assert.equal(await served.counted(), asked);
  assert.equal(backend.seen.length, asked);

  const startMs = performance.now();
  const exited = new Promise<number | null>((resolve) =>
    served.running.child.once("exit", resolve),
  );
  served.running.child.kill("SIGTERM");
  assert.equal(await exited, 0);
  assert.ok(performance.now() - startMs < 10_000, "the drain, and 2 s for the last lines");
  await endAtOnce(read, other);
});

test("2.4 Log pipe closed: a log whose reader went away: it goes on, every line is counted, and it ends with 0", async () => {
  await using backend = await startTestUpstream();
  await using served = await spawnGateway({ upstreams: [backend.origin] });
  served.running.child.stdout?.destroy();
  for (let i = 0; i < 5; i++)
    assert.equal((await sendRequest(served.port, { key: KEY })).status, 200);
  await eventually(async () => assert.ok((await dropped(served)) >= 4));
  for (let i = 0; i < 5; i++)
    assert.equal((await sendRequest(served.port, { key: KEY })).status, 200);
  assert.equal(await served.counted(), 10);
  const { status, checks } = (await (await fetch(`${served.adminUrl}/readyz`)).json()) as {
    readonly status: string;
    readonly checks: { readonly log?: unknown };
  };
  const why = "lines of the log are dropped: EPIPE, it is closed";
  assert.deepEqual([status, checks.log], ["ready", { ok: true, why }]);
  const { code } = await served.running.stop();
  assert.equal(code, 0);
});
