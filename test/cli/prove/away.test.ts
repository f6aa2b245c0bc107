import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, it } from "vitest";
import { OutageTracker } from "../../../src/cli/prove/judge/outage-tracker.ts";
import type { GatewayChild } from "../../../src/cli/prove/trial/processes.ts";
import { eventually } from "../../support/poll.ts";

const LINE = { msg: "event", time: 10_000 };

/** The metrics of a gateway that owes as many units. */
async function openMetrics(counts: { owed: number }): Promise<GatewayChild & AsyncDisposable> {
  const server = createServer((_, response) => {
    response.end(`tollgate_charges_owed{gateway="vm-1"} ${counts.owed}\n`);
  });
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  const close = async () => {
    server.close();
    server.closeAllConnections();
  };
  const adminUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const gateway: unknown = { adminUrl, [Symbol.asyncDispose]: close };
  return gateway as GatewayChild & AsyncDisposable;
}

describe("when gateways decided without the store", () => {
  it("is told by the events of each: from a second before to the end", () => {
    const outages = new OutageTracker();
    outages.onLogLine("a", { ...LINE, kind: "store_away" });
    outages.onLogLine("a", { ...LINE, kind: "store_away", time: 10_500 });
    outages.onLogLine("b", { ...LINE, kind: "store_back", time: 11_000 });
    assert.equal(outages.isOpen, true, "that of another gateway ends nothing");
    assert.deepEqual(outages.spansUntil(11_500), [{ fromMs: 9_000, toMs: 11_500 }], "it is open");
    outages.onLogLine("a", { ...LINE, kind: "store_back", time: 12_000 });
    assert.equal(outages.isOpen, false);
    assert.deepEqual(
      outages.spans.map(({ fromMs, toMs }) => [fromMs, toMs]),
      [[9_000, 12_000]],
    );
    assert.deepEqual(outages.spansUntil(15_000), [{ fromMs: 9_000, toMs: 12_000 }]);
  });

  it("is waited for, until the last gateway tells the end, no longer than is said, and not once the proof is stopped", async () => {
    const outages = new OutageTracker();
    const stopping = new AbortController();
    let pauses = 0;
    const pause = async (ms: number) => {
      assert.equal(ms, 20, "the proof goes on as soon as they are back");
      pauses += 1;
      if (pauses === 3) outages.onLogLine("a", { ...LINE, kind: "store_back" });
      if (pauses === 5) outages.onLogLine("b", { ...LINE, kind: "store_back" });
      assert.ok(pauses <= 5, "both are back");
    };
    await outages.untilBack(60_000, { pause, signal: stopping.signal });
    assert.equal(pauses, 0, "none was away");
    for (const gateway of ["a", "b"]) outages.onLogLine(gateway, { ...LINE, kind: "store_away" });
    await outages.untilBack(60_000, { pause, signal: stopping.signal });
    assert.equal(pauses, 5);
    outages.onLogLine("a", { ...LINE, kind: "store_away" });
    await outages.untilBack(0, { pause, signal: stopping.signal });
    assert.deepEqual([pauses, outages.isOpen], [5, true]);
    stopping.abort();
    await outages.untilBack(60_000, { pause, signal: stopping.signal });
    assert.equal(pauses, 5, "the proof was stopped");
  });

  it("is taken for open of a killed process since it was last looked at, and only until it was killed", () => {
    const outages = new OutageTracker();
    const beforeMs = Date.now();
    outages.killed(beforeMs);
    assert.equal(outages.isOpen, false);
    const [span] = outages.spans;
    assert.ok(span !== undefined && span.fromMs >= beforeMs - 1_000 && span.toMs >= beforeMs);
    assert.equal(span.toMs - span.fromMs, 1_000);
    outages.killed(beforeMs - 7_000);
    assert.equal(outages.spans.at(-1)?.fromMs, beforeMs - 7_000);
  });

  it("holds up what a gateway settles, as do those before it that ended less than two seconds ago", async () => {
    const outages = new OutageTracker();
    const outage = (gateway: string, toldMs: number, backMs?: number) => {
      outages.onLogLine(gateway, { ...LINE, kind: "store_away", time: toldMs });
      if (backMs !== undefined)
        outages.onLogLine(gateway, { ...LINE, kind: "store_back", time: backMs });
    };
    await using gateway = await openMetrics({ owed: 0 });
    const settledMs = (nowMs: number) => outages.settledUntilMs("1", gateway, nowMs);
    assert.equal(settledMs(20_000), 0, "it may owe what it admitted");
    await outages.poll(gateway);
    assert.equal(settledMs(20_000), 18_000, "none was away");
    outage("1", 3_000, 4_000);
    outage("0", 18_500);
    assert.equal(settledMs(20_000), 18_000, "long ago, and another");
    assert.equal(settledMs(6_000), 2_000);
    assert.equal(settledMs(6_001), 4_001);
    outage("1", 16_000, 16_600);
    outage("1", 17_500, 18_500);
    assert.equal(settledMs(20_000), 15_000);
    outage("1", 25_000);
    assert.equal(settledMs(90_000), 24_000, "it is away still");
  });

  it("leaves nothing uncharged of what was admitted a second before a gateway told that it owes nothing", async () => {
    const outages = new OutageTracker();
    const counts = { owed: 0 };
    await using gateway = await openMetrics(counts);
    assert.equal(outages.chargedUntilMs(gateway), 0);
    const beforeMs = Date.now();
    await outages.poll(gateway);
    const chargedMs = outages.chargedUntilMs(gateway);
    assert.ok(chargedMs >= beforeMs - 1_060 && chargedMs <= Date.now() - 1_060, `${chargedMs}`);
    counts.owed = 1;
    await outages.poll(gateway);
    assert.equal(outages.chargedUntilMs(gateway), chargedMs, "it owes a unit");
    assert.equal(outages.settledUntilMs("1", gateway, Date.now() + 60_000), chargedMs);
    assert.equal(outages.chargedUntilMs({ adminUrl: "another" }), 0);
  });

  it("is waited for until the gateway to kill owes nothing, no longer than is said, and not once the proof is stopped", async () => {
    const outages = new OutageTracker();
    const counts = { owed: 2 };
    await using gateway = await openMetrics(counts);
    const stopping = new AbortController();
    const pause = async () => {
      counts.owed -= 1;
    };
    await outages.untilCharged(gateway, 0, { pause, signal: stopping.signal });
    assert.equal(counts.owed, 2, "no time for it");
    await outages.untilCharged(gateway, 60_000, { pause, signal: stopping.signal });
    assert.equal(counts.owed, 0);
    assert.ok(outages.chargedUntilMs(gateway) > 0);
    counts.owed = 1;
    stopping.abort();
    await outages.untilCharged(gateway, 60_000, { pause, signal: stopping.signal });
    assert.equal(counts.owed, 1, "the proof was stopped");
  });

  it("is told of each bucket of a Cluster by itself", () => {
    const outages = new OutageTracker();
    outages.onLogLine("a", { ...LINE, kind: "store_away", buckets: "3,4" });
    outages.onLogLine("a", { ...LINE, kind: "store_back", buckets: "4", time: 11_000 });
    assert.equal(outages.isOpen, true);
    outages.onLogLine("a", { ...LINE, kind: "store_back", buckets: "3", time: 12_000 });
    assert.deepEqual(
      [outages.isOpen, outages.spans.map(({ toMs }) => toMs)],
      [false, [12_000, 11_000]],
    );
  });

  it("is looked for once more at the end, when metrics are new again, and a gateway that is gone holds nothing up", async () => {
    let decided = 0;
    let lookedMs = 0;
    const betweenMs: number[] = [];
    const server = createServer((_, response) => {
      betweenMs.push(performance.now() - lookedMs);
      lookedMs = performance.now();
      response.end(`tollgate_store_unavailable_decisions_total ${decided}\n`);
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    try {
      const { port } = server.address() as AddressInfo;
      const outages = new OutageTracker();
      outages.watch({ adminUrl: `http://127.0.0.1:${port}` } as never);
      outages.watch({ adminUrl: "http://127.0.0.1:1" } as never);
      await eventually(() => betweenMs.length >= 4);
      const nextMs = Math.min(...betweenMs);
      assert.ok(nextMs > 150 && nextMs < 500, `${nextMs} ms between two looks`);
      const stoppedMs = performance.now();
      const stopped = outages.stop();
      decided = 1;
      await stopped;
      assert.equal(outages.spans.length, 1);
      assert.ok(lookedMs - stoppedMs > 990, `${lookedMs - stoppedMs} ms after the end`);
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });

  it("is told by the count of such decisions too, where a late call was no event", async () => {
    const counts = { decided: 3, answeredMs: 0 };
    const server = createServer(async (_, response) => {
      await sleep(5);
      counts.answeredMs = Date.now();
      response.end(
        `tollgate_store_unavailable_decisions_total{mode="local"} ${counts.decided}\n` +
          `tollgate_store_unavailable_decisions_total{mode="deny"} 0\n`,
      );
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    try {
      const { port } = server.address() as AddressInfo;
      const gateway = { adminUrl: `http://127.0.0.1:${port}` } as never;
      const outages = new OutageTracker();
      await outages.poll(gateway);
      assert.equal(outages.spans.length, 1, "it began before anybody looked");
      const lookedMs = Date.now();
      await outages.poll(gateway);
      assert.equal(outages.spans.length, 1, "none since");
      counts.decided += 1;
      await outages.poll(gateway);
      const [, last] = outages.spans;
      assert.ok(last !== undefined && last.toMs >= counts.answeredMs && last.toMs <= Date.now());
      // The metrics of the look before may have been a second old already.
      const fromMs = lookedMs - 1_060;
      const slowMs = last.fromMs - fromMs;
      assert.ok(slowMs >= 0 && slowMs <= counts.answeredMs - lookedMs, `${slowMs} ms after`);
    } finally {
      server.close();
    }
  });
});
