import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  type Gauges,
  GROWING,
  joinGauges,
  metricSources,
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
function gaugesOf(n: number, upstreams: Iterable<Upstream> = []): Gauges {
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
  it("lists of a process are copies that can be sent to another, whatever they are read from", () => {
    const own = [upstream(true), upstream(false, { backend: "/a" })];
    const { upstreams } = gaugesOf(1, new Set(own));
    own.pop();
    assert.deepEqual(upstreams, [upstream(true), upstream(false, { backend: "/a" })]);
  });

  it("an upstream is down since the first process has it down, and back when the last one has it", () => {
    const of = (up: boolean, downMs: number, upMs?: number) => {
      return upstream(up, {
        outages: { count: downMs, downMs, why: `${downMs}`, ...(upMs && { upMs }) },
      });
    };
    const joined = (...all: Upstream[]) => {
      const { upstreams } = joinGauges(all.map((one) => gaugesOf(1, [one])));
      const { up, outages } = upstreams[0] ?? assert.fail();
      return [up, outages?.downMs, outages?.why, outages?.upMs, outages?.count];
    };
    const never = upstream(true);
    for (const isReversed of [false, true]) {
      const inOrder = (...all: Upstream[]) => joined(...(isReversed ? all.toReversed() : all));
      assert.deepEqual(inOrder(of(true, 5, 6), never, of(true, 3, 9)), [true, 3, "3", 9, 5]);
      assert.deepEqual(inOrder(of(true, 5, 6), of(true, 3, 4)), [true, 5, "5", 6, 5]);
      assert.deepEqual(inOrder(of(false, 5), of(true, 3, 9)), [false, 3, "3", 9, 5]);
      assert.deepEqual(inOrder(of(false, 5), of(true, 3, 4)), [false, 5, "5", 4, 5]);
      assert.deepEqual(inOrder(of(false, 5), of(true, 7, 8), never), [false, 5, "5", 8, 7]);
      assert.deepEqual(inOrder(of(false, 5), of(false, 3, 2)), [false, 3, "3", 2, 5]);
      assert.deepEqual(inOrder(of(false, 5)), [false, 5, "5", undefined, 5]);
      assert.deepEqual(inOrder(never, never), [true, undefined, undefined, undefined, undefined]);
    }
  });

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
    const why = "answered 503";
    const all = [upstream(false, { why }), upstream(true)].map((one) => gaugesOf(1, [one]));
    for (const some of [all, all.toReversed()]) {
      assert.deepEqual(joinGauges(some).upstreams, [upstream(false, { why })]);
    }
  });

  it("an upstream is told for each environment, backend and origin", () => {
    const own = [
      ...[upstream(false, { backend: "/a" }), upstream(true, { backend: "/b" })],
      upstream(true, { backend: "/a", environment: "staging" }),
      upstream(true, { backend: "/a", origin: "http://a:2" }),
    ];
    const joined = joinGauges([gaugesOf(1, own), gaugesOf(1, own)]);
    assert.deepEqual(joined.upstreams, own);
  });

  it("work is summed, of records that all have the newest count holds, and of a state the worst", () => {
    const { upstreams, certificates, storeUp, storeUnsafePolicy, storeSplit, ...numbers } =
      joinGauges([gaugesOf(2), gaugesOf(3)]);
    const newest = ["keys", "accounts", "keysLost", "keysDamaged"];
    for (const [name, value] of each(Object.entries(numbers))) {
      assert.equal(value, newest.includes(name) ? 3 : 5, name);
    }
    assert.deepEqual(Object.keys(numbers).sort(), [
      ...["accounts", "chargesLost", "chargesOwed", "chargesUncertain", "connections"],
      ...["eventsDropped", "inFlight", "keys", "keysDamaged", "keysLost", "keysOlder"],
      ...["keysUnreadable", "logDropped", "stateFileUnwritten", "storeCommands"],
      ...["telemetryDropped", "tunnels"],
    ]);
    assert.deepEqual([upstreams, certificates], [[], []]);
    const none = Object.entries(joinGauges([])).filter(([, value]) => typeof value === "number");
    for (const [name, value] of each(none)) assert.equal(value, 0, name);
    const states = (...all: boolean[]) => {
      const told = joinGauges(
        all.map((one) => ({
          ...gaugesOf(1),
          ...{ storeUp: one, storeUnsafePolicy: one, storeSplit: one },
        })),
      );
      return [told.storeUp, told.storeUnsafePolicy, told.storeSplit];
    };
    assert.deepEqual(states(true, true), [true, true, true]);
    assert.deepEqual(states(true, false), [false, true, true]);
    assert.deepEqual(states(false, false), [false, false, false]);
    assert.deepEqual([storeUp, storeUnsafePolicy, storeSplit], [false, false, false]);
  });

  it("certificates of all of them are told, of which a reader takes the one that ends first", () => {
    const one = { environment: "production", certificate: "listener", endsMs: 1 } as const;
    const joined = joinGauges([
      { ...gaugesOf(1), certificates: [one] },
      { ...gaugesOf(1), certificates: [{ ...one, endsMs: 2 }] },
    ]);
    assert.deepEqual(
      joined.certificates.map(({ endsMs }) => endsMs),
      [1, 2],
    );
  });

  it("the figures of a process are those of its listeners, its counters and its records", () => {
    const records = { keys: [1, 2], accounts: [1, 2, 3] };
    const troubles = { lost: 4, damaged: 5, unreadable: 6, older: 7 };
    const charges = { uncertainUnits: 8, lostUnits: 9, owedUnits: 10 };
    const serving = { active: 11, connections: 12, tunnels: 13 };
    const sources = metricSources(
      { ...serving, upstreams: () => ["up"], certificates: () => ["c"] } as never,
      {
        keys: { records: () => records, troubles: () => troubles } as never,
        quotas: {
          ...{ health: () => ({ ok: true }), unsafePolicy: () => false, isSplit: () => true },
          ...{ unwrittenCount: () => 14, commandCount: () => 15, charges: () => charges },
        } as never,
      },
    );
    const read = Object.entries(sources).map(([name, source]) => [name, source()]);
    assert.deepEqual(Object.fromEntries(read), {
      ...{ inFlight: 11, connections: 12, tunnels: 13, upstreams: ["up"], certificates: ["c"] },
      ...{ storeUp: true, storeUnsafePolicy: false, storeSplit: true, keys: 2, accounts: 3 },
      ...{ keysLost: 4, keysDamaged: 5, keysUnreadable: 6, keysOlder: 7, stateFileUnwritten: 14 },
      ...{ storeCommands: 15, chargesUncertain: 8, chargesLost: 9, chargesOwed: 10 },
    });
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
    assert.deepEqual(worst({ ok: false }, good), {
      ok: false,
      why: "not well (1 of 2 workers)",
    });
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
