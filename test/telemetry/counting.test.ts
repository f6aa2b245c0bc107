import assert from "node:assert/strict";
import { test } from "vitest";
import { newHistogramCell, observeDuration } from "../../src/telemetry/metrics/metric-vec.ts";
import {
  addCounts,
  createMetricsRecorder,
  takeCounts,
} from "../../src/telemetry/metrics/metrics-recorder.ts";
import { countRequest, deprecatedRoutes } from "../../src/telemetry/metrics/request-metrics.ts";

test("counts and durations that were taken out are not there a second time, sums included", () => {
  const metrics = createMetricsRecorder();
  const all = createMetricsRecorder();
  const durations = metrics.tables.durations.cell("production", "backend");
  for (const seconds of [0.5, 2]) observeDuration(durations, seconds);
  metrics.banned("production");
  addCounts(all, takeCounts(metrics));
  assert.deepEqual(takeCounts(metrics), {});
  observeDuration(durations, 4);
  addCounts(all, takeCounts(metrics));

  const expected = newHistogramCell();
  for (const seconds of [0.5, 2, 4]) observeDuration(expected, seconds);
  assert.deepEqual(all.tables.durations.cell("production", "backend"), expected);
  assert.equal(all.tables.bans.cell("production").value, 1);
});

test("calls are counted as deprecated of deprecated operations alone, HEAD with GET, and of backends as well", () => {
  const operation = (method: string, deprecated: boolean) => {
    return { template: "/v1/pets", method, lifecycle: { deprecated } };
  };
  const operations = [operation("GET", true), operation("POST", false), operation("PUT", true)];
  const environments = [
    { name: "production", routes: { operations }, services: [] },
    { name: "staging", routes: {}, services: [{ routes: { operations: operations.slice(1) } }] },
  ];
  const routes = deprecatedRoutes({ environments } as never);
  const methods = environments.map(({ name }) => [...(routes.get(name)?.get("/v1/pets") ?? [])]);
  const put = ["PUT", "PUT"];
  assert.deepEqual(methods, [[["GET", "GET"], ["HEAD", "GET"], put], [put]]);
});

test("a call to the store is observed in seconds, as its metric is named", () => {
  const metrics = createMetricsRecorder();
  metrics.storeCall(250);
  assert.equal(metrics.tables.storeCalls.cell().sum, 0.25);
});

test("a meter is counted as over its maximum where more was used than was charged, and not where as much", () => {
  const metrics = createMetricsRecorder();
  const line = { method: "POST", status: 200, source: "backend", decision: "admitted" };
  const told = { ...line, durationMs: 1, charged: 1, forwards: 1 };
  const over = [
    { hold: 10, used: 10 },
    { hold: 10, used: 12, charged: 12 },
    { hold: 10, used: 12, charged: 11 },
    { hold: 10 },
  ].map((tokens) => {
    const times = { storeMs: 0, upstreamMs: 1 };
    countRequest(metrics.tables, new Map(), { ...told, meters: { tokens } } as never, times);
    return metrics.tables.metersOverMax.cell().value;
  });
  assert.deepEqual(over, [0, 0, 1, 1]);
  assert.equal(metrics.tables.meterUnits.cell("tokens").value, 10 + 12 + 11 + 10);
});

test("reloads are not taken out with the other counts, as the process that ordered one counts it", () => {
  const metrics = createMetricsRecorder();
  metrics.reloaded("success");
  metrics.turnedAway("memory");
  metrics.shareRefused();
  metrics.decidedWithoutStore("deny");
  assert.deepEqual(takeCounts(metrics), {
    ...{ turnedAway: [[["memory"], [1]]], shareRefusals: [[[], [1]]] },
    withoutStore: [[["deny"], [1]]],
  });
  assert.equal(metrics.tables.reloads.cell("success").value, 1);
});

test("what overflowed the table of another process stays in what overflows here", () => {
  const [worker, watching] = [createMetricsRecorder(), createMetricsRecorder()];
  for (let i = 0; i < 1_003; i++) worker.tables.refusals.cell("production", `code${i}`).value += 1;
  addCounts(watching, takeCounts(worker));
  const cells = [...watching.tables.refusals.entries()].map(([, { value }]) => value);
  assert.equal(cells.length, 1_000);
  assert.equal(watching.tables.refusals.overflow().value, 4);
});

test("a configuration has a count of bans for each environment at once, a series for each operation that it may, and its deprecated ones", () => {
  const metrics = createMetricsRecorder();
  const old = { template: "/v1/old", method: "GET", lifecycle: { deprecated: true } };
  const environments = [
    { name: "production", routes: { operations: [old] }, services: [] },
    { name: "staging", routes: {}, services: [] },
  ];
  const config = { hash: "abc", environments, metrics: { routes: 2 } } as never;
  metrics.configured(config, 5_000);
  const bans = [...metrics.tables.bans.entries()];
  assert.deepEqual(bans, [
    [{ env: "production" }, { value: 0 }],
    [{ env: "staging" }, { value: 0 }],
  ]);
  assert.deepEqual(metrics.configuration(), { hash: "abc", configuredMs: 5_000 });
  for (const route of ["/a", "/b", "/c", "/d"]) metrics.tables.routeDurations.cell("x", route);
  const routes = [...metrics.tables.routeDurations.entries()].map(([{ route }]) => route);
  assert.deepEqual(routes, ["/a", "/b", "overflow"]);
  const line = { env: "production", route: "/v1/old", method: "GET", status: 200 };
  const told = { ...line, source: "backend", decision: "admitted", charged: 1, forwards: 1 };
  metrics.request({ ...told, durationMs: 1 } as never, { storeMs: 0, upstreamMs: 1 });
  assert.equal(metrics.tables.deprecated.cell("production", "/v1/old", "GET").value, 1);
});

test("the gateway's own time is what store and backend leave of a request, never below 0, and a tunnel has none", () => {
  const metrics = createMetricsRecorder();
  const { tables } = metrics;
  const line = { env: "e", route: "/a", upstream: "u", method: "GET", source: "backend" };
  const told = { ...line, decision: "admitted", charged: 1, forwards: 1, durationMs: 10 };
  const count = (status: number, storeMs: number, upstreamMs: number | undefined) => {
    metrics.request({ ...told, status } as never, { storeMs, upstreamMs });
    const { sum, counts } = tables.overheads.cell("e");
    return [sum, counts.reduce((all, one) => all + one, 0)];
  };
  assert.deepEqual(count(200, 2, 5), [0.003, 1]);
  assert.deepEqual(count(200, 4, 8), [0.003, 2]);
  assert.deepEqual(count(101, 0, 0), [0.003, 2]);
  const { counts } = tables.upstreamDurations.cell("e", "u");
  const forwarded = () => counts.reduce((all, one) => all + one, 0);
  assert.equal(forwarded(), 2);
  assert.deepEqual(count(429, 2, undefined), [0.011, 3]);
  assert.equal(forwarded(), 2, "it was not sent");
  const milliseconds = ({ sum }: { readonly sum: number }) => Math.round(sum * 1_000);
  assert.equal(milliseconds(tables.upstreamDurations.cell("e", "u")), 13);
  assert.equal(milliseconds(tables.routeDurations.cell("e", "/a")), 20, "the whole time of both");
});

test("a method that is none of ours, and what is not known of a request, have a label of their own", () => {
  const { tables, request } = createMetricsRecorder();
  const line = { method: "BREW", status: 405, source: "gateway", decision: "none" };
  const more = { observed: ["day"], code: "key_missing" };
  const told = { ...line, durationMs: 1, charged: 0, forwards: 0, ...more };
  request(told as never, { storeMs: 0, upstreamMs: undefined });
  const [[observed] = []] = [...tables.observed.entries()];
  assert.deepEqual(observed, { env: "none", plan: "none", window: "day" });
  const [[labels] = []] = [...tables.requests.entries()];
  assert.deepEqual(labels, {
    ...{ env: "none", route: "none", method: "OTHER", code: 405, source: "gateway" },
  });
  const [[decided, decisions] = []] = [...tables.decisions.entries()];
  assert.deepEqual(
    [decided, decisions?.value],
    [{ env: "none", plan: "none", decision: "none" }, 1],
  );
  const [[refused, refusals] = []] = [...tables.refusals.entries()];
  assert.deepEqual([refused, refusals?.value], [{ env: "none", code: "key_missing" }, 1]);
  const [[answered, durations] = []] = [...tables.durations.entries()];
  assert.deepEqual([answered, durations?.sum], [{ env: "none", source: "gateway" }, 0.001]);
  assert.equal(tables.failures.cell("none", "key_missing").value, 1);
  request({ ...told, code: "not_found" } as never, { storeMs: 0, upstreamMs: undefined });
  const failures = [...tables.failures.entries()].map(([{ reason }]) => reason);
  assert.deepEqual(failures, ["key_missing"], "another refusal is no failure of a key");
});
