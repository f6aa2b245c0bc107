import assert from "node:assert/strict";
import { test } from "vitest";
import { AgingMap } from "../../src/base/aging-map.ts";
import { createAuthFailureLimiter } from "../../src/gateway/client/auth-failure-limiter.ts";
import { MetricVec } from "../../src/telemetry/metrics/metric-vec.ts";

const MEBIBYTE = 1024 ** 2;

/** The milliseconds of processor that so many steps take: with a sweep in some of them it would be minutes. */
function timed(count: number, step: (i: number) => void): number {
  const before = process.cpuUsage();
  for (let i = 0; i < count; i++) step(i);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

test("1,000,000 accounts leave what is remembered at its bound, without a sweep", (t) => {
  const memory = new AgingMap<number>();
  const tookMs = timed(1_000_000, (i) => memory.set(`production:account-${i}`, i));
  t.annotate(`${memory.size} remembered; ${tookMs.toFixed(0)} ms`);
  assert.ok(memory.size <= 200_000, `${memory.size}`);
  assert.equal(memory.get("production:account-999999"), 999_999, "the latest is there");
  assert.ok(tookMs < 15_000, `${tookMs} ms`);
});

test("1,000,000 labels leave a table of metrics at its bound, with a true sum", () => {
  const tally = new MetricVec(["name"], 1_000, () => ({ count: 0 }));
  timed(1_000_000, (i) => {
    tally.cell(`label-${i}`).count += 1;
  });
  const cells = [...tally.entries()].map(([, { count }]) => count);
  assert.ok(cells.length <= 1_001, `${cells.length}`);
  assert.equal(
    cells.reduce((sum, count) => sum + count, 0),
    1_000_000,
  );
});

test("80,000 addresses that fail share as many slots as there are, and no more", async () => {
  const failures = createAuthFailureLimiter({ window: "second", limit: 5 });
  const before = process.memoryUsage().rss;
  for (let i = 0; i < 80_000; i++) {
    await failures.consume(`10.${i & 255}.${(i >> 8) & 255}.${i >> 16}`, 0);
  }
  const grown = (process.memoryUsage().rss - before) / MEBIBYTE;
  assert.ok(grown < 120, `${grown} MiB`);
});
