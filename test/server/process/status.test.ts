import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  type Gauges,
  GROWING,
  joinGauges,
  readGauges,
  worstReadinessCheck,
} from "../../../src/server/process/status.ts";
import {
  type MetricSources,
  metricReaders,
  type ScalarMetricName,
} from "../../../src/telemetry/metrics/metric-readers.ts";
import { METRICS } from "../../../src/telemetry/metrics/metrics.ts";
import { createMetricsRecorder } from "../../../src/telemetry/metrics/metrics-recorder.ts";
import type { ReadinessChecks } from "../../../src/telemetry/readiness.ts";
import { each } from "../../support/each.ts";

type Upstream = Gauges["upstreams"][number];

/** A process of which each number is `n`, with these upstreams. */
function gaugesOf(n: number, upstreams: readonly Upstream[] = []): Gauges {
  const list = new Set<PropertyKey>(["certificates", "upstreams"]);
  const flag = new Set<PropertyKey>(["storeUp", "storeUnsafePolicy", "storeSplit"]);
  const read = (_: object, name: PropertyKey) => () => {
    if (name === "upstreams") return upstreams;
    if (list.has(name)) return [];
    return flag.has(name) ? false : n;
  };
  return readGauges(new Proxy({}, { get: read }) as Parameters<typeof readGauges>[0]);
}

function upstream(up: boolean, more: Partial<Upstream> = {}): Upstream {
  return { environment: "production", backend: undefined, origin: "http://a:1", up, ...more };
}

describe("several processes as one gateway", () => {
  it("an upstream is up only where it is for every process, in whatever order they tell", () => {
    const up = (...all: boolean[]) => {
      const joined = joinGauges(all.map((one) => gaugesOf(1, [upstream(one)])));
      return joined.upstreams.map((one) => one.up);
    };
    assert.deepEqual(up(true, true, true), [true]);
    for (const all of each([
      [false, true, true],
      [true, false, true],
      [true, true, false],
    ])) {
      assert.deepEqual(up(...all), [false]);
    }
  });

  it("an upstream that two backends of an environment have is one for each", () => {
    const own = [upstream(false, { backend: "/a" }), upstream(true, { backend: "/b" })];
    const joined = joinGauges([gaugesOf(1, own), gaugesOf(1, own)]);
    assert.deepEqual(joined.upstreams, own);
  });

  it("work is summed, and of records that all have the newest count holds", () => {
    const { inFlight, chargesOwed, keys, accounts, keysLost, keysDamaged } = joinGauges([
      gaugesOf(2),
      gaugesOf(3),
    ]);
    assert.deepEqual([inFlight, chargesOwed], [5, 5]);
    assert.deepEqual([keys, accounts, keysLost, keysDamaged], [3, 3, 3, 3]);
  });

  it("a check has the worst result of those that serve, and that of the watching one while none does", () => {
    const own = { ok: false, why: "own" };
    const worst = (...all: { ok: boolean; why?: string }[]) => {
      const checks = all.map((store) => ({ store }) as unknown as ReadinessChecks);
      return worstReadinessCheck(checks, "store", own);
    };
    const [good, away] = [{ ok: true }, { ok: false, why: "away" }];
    assert.deepEqual(worst(), own);
    assert.deepEqual(worst(good, good), good);
    assert.deepEqual(worst(good, away, good), { ok: false, why: "away (1 of 3 workers)" });
    assert.deepEqual(worst(away, away), away);
  });
});

it("every counter that is read from a process goes on where that process has ended", () => {
  const asked = new Set<string>();
  const watched = new Proxy(
    {},
    {
      get: (_, name) => () => {
        asked.add(String(name));
        return 0;
      },
    },
  ) as MetricSources;
  const readers = metricReaders(watched, createMetricsRecorder());
  for (const name of each(Object.keys(readers) as ScalarMetricName[])) {
    if (METRICS[name].type === "counter") [...(readers[name]?.() ?? [])];
  }
  asked.delete("workers");
  assert.deepEqual([...asked].sort(), [...GROWING].sort());
});
