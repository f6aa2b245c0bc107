import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, it } from "vitest";
import { OutageTracker } from "../../../src/cli/prove/outage-tracker.ts";

const LINE = { msg: "event", time: 10_000 };

describe("when gateways decided without the store", () => {
  it("is told by the events of each: from a second before to the end", () => {
    const away = new OutageTracker();
    away.onLogLine("a", { ...LINE, kind: "store_away" });
    away.onLogLine("a", { ...LINE, kind: "store_away", time: 10_500 });
    away.onLogLine("b", { ...LINE, kind: "store_back", time: 11_000 });
    assert.equal(away.isOpen, true, "that of another gateway ends nothing");
    assert.deepEqual(away.spansUntil(11_500), [{ fromMs: 9_000, toMs: 11_500 }], "it is open");
    away.onLogLine("a", { ...LINE, kind: "store_back", time: 12_000 });
    assert.equal(away.isOpen, false);
    assert.deepEqual(
      away.spans.map(({ fromMs, toMs }) => [fromMs, toMs]),
      [[9_000, 12_000]],
    );
    assert.deepEqual(away.spansUntil(15_000), [{ fromMs: 9_000, toMs: 12_000 }]);
  });

  it("is waited for, until the last gateway tells the end, no longer than is said, and not once the proof is stopped", async () => {
    const away = new OutageTracker();
    const stopping = new AbortController();
    let pauses = 0;
    const pause = async () => {
      pauses += 1;
      if (pauses === 3) away.onLogLine("a", { ...LINE, kind: "store_back" });
      if (pauses === 5) away.onLogLine("b", { ...LINE, kind: "store_back" });
      assert.ok(pauses <= 5, "both are back");
    };
    await away.untilBack(60_000, pause, stopping.signal);
    assert.equal(pauses, 0, "none was away");
    for (const gateway of ["a", "b"]) away.onLogLine(gateway, { ...LINE, kind: "store_away" });
    await away.untilBack(60_000, pause, stopping.signal);
    assert.equal(pauses, 5);
    away.onLogLine("a", { ...LINE, kind: "store_away" });
    await away.untilBack(0, pause, stopping.signal);
    assert.deepEqual([pauses, away.isOpen], [5, true]);
    stopping.abort();
    await away.untilBack(60_000, pause, stopping.signal);
    assert.equal(pauses, 5, "the proof was stopped");
  });

  it("is taken for open of a killed process only until it was killed", () => {
    const away = new OutageTracker();
    const beforeMs = Date.now();
    away.killed();
    assert.equal(away.isOpen, false);
    const [span] = away.spans;
    assert.ok(span !== undefined && span.fromMs >= beforeMs - 1_000 && span.toMs >= beforeMs);
    assert.equal(span.toMs - span.fromMs, 1_000);
  });

  it("holds up what a gateway settles, as do those before it that ended less than a second ago", () => {
    const away = new OutageTracker();
    const outage = (gateway: string, toldMs: number, backMs?: number) => {
      away.onLogLine(gateway, { ...LINE, kind: "store_away", time: toldMs });
      if (backMs !== undefined)
        away.onLogLine(gateway, { ...LINE, kind: "store_back", time: backMs });
    };
    assert.equal(away.settledUntilMs("1", 20_000), 19_000, "none was away");
    outage("1", 3_000, 4_000);
    outage("0", 18_500);
    assert.equal(away.settledUntilMs("1", 20_000), 19_000, "long ago, and another");
    assert.equal(away.settledUntilMs("1", 5_000), 2_000);
    assert.equal(away.settledUntilMs("1", 5_001), 4_001);
    outage("1", 17_000, 17_600);
    outage("1", 18_500, 19_500);
    assert.equal(away.settledUntilMs("1", 20_000), 16_000);
    outage("1", 25_000);
    assert.equal(away.settledUntilMs("1", 90_000), 24_000, "it is away still");
  });

  it("is told of each bucket of a Cluster by itself", () => {
    const away = new OutageTracker();
    away.onLogLine("a", { ...LINE, kind: "store_away", buckets: "3,4" });
    away.onLogLine("a", { ...LINE, kind: "store_back", buckets: "4", time: 11_000 });
    assert.equal(away.isOpen, true);
    away.onLogLine("a", { ...LINE, kind: "store_back", buckets: "3", time: 12_000 });
    assert.deepEqual([away.isOpen, away.spans.map(({ toMs }) => toMs)], [false, [12_000, 11_000]]);
  });

  it("is looked for once more at the end, and a gateway that is gone holds nothing up", async () => {
    let decided = 0;
    const server = createServer((_, response) => {
      response.end(`tollgate_store_unavailable_decisions_total ${decided}\n`);
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    try {
      const { port } = server.address() as AddressInfo;
      const away = new OutageTracker();
      away.watch({ adminUrl: `http://127.0.0.1:${port}` } as never);
      away.watch({ adminUrl: "http://127.0.0.1:1" } as never);
      const stopped = away.stop();
      decided = 1;
      await stopped;
      assert.equal(away.spans.length, 1);
    } finally {
      server.close();
      server.closeAllConnections();
    }
  });

  it("is told by the count of such decisions too, where a late call was no event", async () => {
    const counts = { decided: 3 };
    const server = createServer((_, response) => {
      response.end(
        `tollgate_store_unavailable_decisions_total{mode="local"} ${counts.decided}\n` +
          `tollgate_store_unavailable_decisions_total{mode="deny"} 0\n`,
      );
    });
    await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
    try {
      const { port } = server.address() as AddressInfo;
      const gateway = { adminUrl: `http://127.0.0.1:${port}` } as never;
      const away = new OutageTracker();
      const startMs = Date.now();
      await away.poll(gateway);
      assert.equal(away.spans.length, 1, "it began before anybody looked");
      const lookedMs = Date.now();
      await away.poll(gateway);
      assert.equal(away.spans.length, 1, "none since");
      counts.decided += 1;
      await away.poll(gateway);
      const [, last] = away.spans;
      assert.ok(last !== undefined && last.fromMs >= startMs - 1_100 && last.toMs <= Date.now());
      // The metrics of the look before may have been a second old already.
      assert.ok(last.fromMs < lookedMs - 1_000, `from ${last.fromMs}, looked at ${lookedMs}`);
    } finally {
      server.close();
    }
  });
});
