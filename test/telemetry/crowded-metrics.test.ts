import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { METHODS } from "../../src/core/http/route.ts";
import type { AccessLogEntry } from "../../src/telemetry/log/access-log-entry.ts";
import {
  type LabelValue,
  MetricVec,
  newCounterCell,
} from "../../src/telemetry/metrics/metric-vec.ts";
import {
  addCounts,
  createMetricsRecorder,
  type MetricsRecorder,
  takeCounts,
} from "../../src/telemetry/metrics/metrics-recorder.ts";
import { SERIES_MAX } from "../../src/telemetry/metrics/request-metrics.ts";

const ROUTES = Array.from({ length: 300 }, (_, i) => `/v1/r${i}/{id}`);
const ANSWER = { env: "production", plan: "free", durationMs: 1, charged: 0, forwards: 0 };
const TIMES = { storeMs: 0, upstreamMs: undefined };

/** Requests of one client to every route by every method. */
function floodAs(metrics: MetricsRecorder, account: string | undefined, status: number): void {
  const told = { ...ANSWER, account, status, source: "gateway", decision: "none" };
  for (const route of ROUTES) {
    for (const method of METHODS) metrics.request({ ...told, route, method } as never, TIMES);
  }
}

function fail(metrics: MetricsRecorder, more: Partial<AccessLogEntry> = {}): void {
  const told = { ...ANSWER, account: "other", route: "/v1/pets", method: "GET", status: 500 };
  metrics.request({ ...told, source: "backend", decision: "admitted", ...more } as never, TIMES);
}

type Told = Readonly<Record<string, LabelValue>> & { readonly value: number };
const told = ({ tables }: MetricsRecorder): Told[] => {
  return [...tables.requests.entries()].map(([labels, { value }]) => ({ ...labels, value }));
};
const failures = (metrics: MetricsRecorder) => told(metrics).filter(({ code }) => code === 500);

describe("the series of requests", () => {
  it("have one route for all clients whose key was not accepted, and the routes of the others", () => {
    const metrics = createMetricsRecorder();
    floodAs(metrics, undefined, 401);
    fail(metrics);
    const refused = told(metrics).filter(({ code }) => code === 401);
    assert.deepEqual(
      refused.map(({ route, value }) => [route, value]),
      METHODS.map(() => ["none", ROUTES.length]),
    );
    assert.deepEqual(failures(metrics), [
      {
        ...{ env: "production", route: "/v1/pets", method: "GET", code: 500 },
        ...{ source: "backend", value: 1 },
      },
    ]);
  });

  it("keep environment, code and source when one account has filled them, in other processes too", () => {
    const [metrics, all] = [createMetricsRecorder(), createMetricsRecorder()];
    floodAs(metrics, "acme", 405);
    for (const env of ["production", "staging"]) fail(metrics, { env });
    fail(metrics, { method: "POST" });
    const crowded = { route: "overflow", method: "overflow", code: 500, source: "backend" };
    const expected = [
      { env: "production", ...crowded, value: 2 },
      { env: "staging", ...crowded, value: 1 },
    ];
    assert.deepEqual(failures(metrics), expected);
    addCounts(all, takeCounts(metrics));
    assert.deepEqual(failures(all), expected);
    const sum = told(all).reduce((total, { value }) => total + value, 0);
    assert.equal(sum, ROUTES.length * METHODS.length + 3);
  });

  it("are at most as many as they may be, whatever statuses backends answer", () => {
    const metrics = createMetricsRecorder();
    floodAs(metrics, "acme", 405);
    for (let status = 200; status < 600; status++) fail(metrics, { status });
    assert.equal(told(metrics).length, SERIES_MAX);
    const [first] = told(metrics).filter(({ code }) => code === "overflow");
    assert.deepEqual([first?.env, first?.source], ["overflow", "overflow"]);
  });
});

it("a full table keeps the labels that it shall in as many cells as it may, then none", () => {
  const kept = { labels: ["b"], cellsMax: 2 };
  const table = new MetricVec(["a", "b"], 5, newCounterCell, kept);
  for (const [a, b] of ["x1", "y1", "z1", "u2", "v1", "x3", "x1"].map((text) => [...text])) {
    table.cell(a, b).value += 1;
  }
  const cells = [...table.entries()].map(([{ a, b }, { value }]) => `${a} ${b} ${value}`);
  assert.deepEqual(cells, [
    ...["x 1 2", "y 1 1"],
    ...["overflow 1 2", "overflow 2 1", "overflow overflow 1"],
  ]);
});
