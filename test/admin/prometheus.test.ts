import assert from "node:assert/strict";
import { PerformanceObserver } from "node:perf_hooks";
import { describe, it, onTestFinished, vi } from "vitest";
import { createPrometheusMetrics } from "../../src/admin/prometheus.ts";
import type { EnvironmentConfig } from "../../src/config/config.ts";
import type { Operation } from "../../src/core/http/route.ts";
import type { AccessLogEntry } from "../../src/telemetry/log/access-log-entry.ts";
import type { MetricSources } from "../../src/telemetry/metrics/metric-readers.ts";
import { DURATION_BUCKETS } from "../../src/telemetry/metrics/metric-vec.ts";
import { METRICS } from "../../src/telemetry/metrics/metrics.ts";
import type { RequestTimes } from "../../src/telemetry/metrics/request-metrics.ts";
import { UNWATCHED } from "./admin-house.ts";
import { assertConventions, samplesOf, scrape } from "./scrape.ts";

const WATCHED: MetricSources = {
  ...UNWATCHED,
  version: "1.2.3",
  inFlight: () => 7,
  connections: () => 5,
  tunnels: () => 3,
  upstreams: () => [
    { environment: "production", origin: "http://user:canary@127.0.0.1:9001", up: true },
    { environment: "staging", origin: "http://127.0.0.1:9002", up: false },
  ],
  storeCommands: () => 42,
  logDropped: () => 3,
};

const LINE: AccessLogEntry = {
  id: "r1",
  env: "production",
  account: "acme",
  key: "k_1",
  plan: "free",
  method: "GET",
  route: "/v1/pets/{petId}",
  path: "/v1/pets/1",
  status: 200,
  code: undefined,
  source: "backend",
  decision: "admitted",
  charged: 1,
  forwards: 1,
  durationMs: 5,
  client: "192.0.2.1",
  why: undefined,
};

/** A request that took 5 ms, of which the gateway took 1. */
const TIMES: RequestTimes = { storeMs: 1, upstreamMs: 3 };

describe("metrics", () => {
  it("count a request in every metric that it concerns", async () => {
    const metrics = createPrometheusMetrics(WATCHED);
    metrics.request(LINE, TIMES);
    metrics.request({ ...LINE, forwards: 2, durationMs: 5.001 }, TIMES);
    const samples = await scrape(metrics);
    const labels = 'env="production",route="/v1/pets/{petId}",method="GET",code="200"';
    assert.equal(samples.get(`tollgate_http_requests_total{${labels},source="backend"}`), 2);
    assert.equal(
      samples.get('tollgate_decisions_total{env="production",plan="free",decision="admitted"}'),
      2,
    );
    assert.equal(samples.get('tollgate_charged_total{env="production"}'), 2);
    assert.equal(samples.get('tollgate_forwards_total{env="production"}'), 3);
    assert.equal(
      [...samples.keys()].some((name) => name.includes("auth_failures_total{")),
      false,
    );
  });

  it("put a duration on a boundary into that bucket, and count buckets cumulatively", async () => {
    const metrics = createPrometheusMetrics(WATCHED);
    for (const durationMs of [5, 5.001, 10_000, 10_001])
      metrics.request({ ...LINE, durationMs }, TIMES);
    const samples = await scrape(metrics);
    const of = (suffix: string, le?: string | number) => {
      const bucket = le === undefined ? "" : `,le="${le}"`;
      const name = `tollgate_http_request_duration_seconds_${suffix}`;
      return samples.get(`${name}{env="production",source="backend"${bucket}}`);
    };
    assert.equal(of("bucket", 0.005), 1);
    assert.equal(of("bucket", 0.01), 2);
    assert.equal(of("bucket", 7.5), 2);
    assert.equal(of("bucket", 10), 3);
    assert.equal(of("bucket", "+Inf"), 4);
    assert.equal(of("count"), 4);
    assert.ok(Math.abs((of("sum") ?? 0) - 20.011001) < 1e-9);
    assert.equal(DURATION_BUCKETS.length, 14);
  });

  it("count a tunnel, which lasts as long as its client likes, in no time but its own", async () => {
    const metrics = createPrometheusMetrics(WATCHED);
    metrics.request({ ...LINE, status: 101 }, TIMES);
    const names = [...(await scrape(metrics)).keys()].filter((name) =>
      /^tollgate_.*duration.*_count/.test(name),
    );
    assert.deepEqual(names, [
      'tollgate_http_request_duration_seconds_count{env="production",source="backend"}',
      "tollgate_store_call_duration_seconds_count",
    ]);
  });

  it("name what is unknown none, and methods that nobody knows OTHER", async () => {
    const metrics = createPrometheusMetrics(WATCHED);
    const unknown = { ...LINE, env: undefined, plan: undefined, route: undefined };
    metrics.request({ ...unknown, method: "BREW", status: 501, source: "gateway" }, TIMES);
    const samples = await scrape(metrics);
    const labels = 'env="none",route="none",method="OTHER",code="501",source="gateway"';
    assert.equal(samples.get(`tollgate_http_requests_total{${labels}}`), 1);
  });

  it("count failed authentications by reason, and nothing else as one", async () => {
    const metrics = createPrometheusMetrics(WATCHED);
    for (const code of [
      "key_missing",
      "key_invalid",
      "key_invalid",
      "rate_limited",
      "key_banned",
    ]) {
      metrics.request({ ...LINE, code }, TIMES);
    }
    const samples = await scrape(metrics);
    const failures = [...samples].filter(([name]) => name.startsWith("tollgate_auth_failures"));
    assert.equal(samples.get('tollgate_refusals_total{env="production",code="key_invalid"}'), 2);
    assert.equal(samples.get('tollgate_refusals_total{env="production",code="rate_limited"}'), 1);
    assert.deepEqual(failures, [
      ['tollgate_auth_failures_total{env="production",reason="key_missing"}', 1],
      ['tollgate_auth_failures_total{env="production",reason="key_invalid"}', 2],
    ]);
  });

  it("count deprecated operations by the configuration in force, HEAD with GET", async () => {
    const metrics = createPrometheusMetrics(WATCHED);
    metrics.request(LINE, TIMES);
    metrics.configured(configWith("aa", true), 1_700_000_000_500);
    metrics.request(LINE, TIMES);
    metrics.request({ ...LINE, method: "HEAD" }, TIMES);
    metrics.request({ ...LINE, method: "DELETE" }, TIMES);
    metrics.request({ ...LINE, env: "staging" }, TIMES);
    metrics.configured(configWith("bb", false), 1_700_000_001_000);
    metrics.request(LINE, TIMES);
    const samples = await scrape(metrics);
    const deprecated = [...samples].filter(([name]) => name.includes("deprecated_requests_total"));
    assert.deepEqual(deprecated, [
      [
        'tollgate_deprecated_requests_total{env="production",route="/v1/pets/{petId}",method="GET"}',
        2,
      ],
    ]);
    assert.equal(samples.get('tollgate_config_info{hash="bb"}'), 1);
    assert.equal(samples.get('tollgate_config_info{hash="aa"}'), undefined);
    const reload = "tollgate_config_last_reload_success_timestamp_seconds";
    assert.equal(samples.get(reload), 1_700_000_001);
  });

  it("tell of the certificates of one place the one that ends first, whichever comes first", async () => {
    const of = (endsMs: number) => {
      return { environment: "production", certificate: "listener", endsMs } as const;
    };
    for (const ends of [
      [2_000_999, 5_000_000],
      [5_000_000, 2_000_999],
    ]) {
      const certificates = () => ends.map(of);
      const samples = await scrape(createPrometheusMetrics({ ...WATCHED, certificates }));
      const name = "tollgate_certificate_expiry_timestamp_seconds";
      assert.equal(samples.get(`${name}{env="production",certificate="listener"}`), 2_000);
    }
  });

  it("have durations of as many operations as the configuration in force says, and one of the others", async () => {
    const metrics = createPrometheusMetrics(WATCHED);
    metrics.configured(configWith("aa", false), 1_700_000_000_500);
    for (const route of ["/a", "/b", "/c", "/d", "/a"]) metrics.request({ ...LINE, route }, TIMES);
    const counts = [...(await scrape(metrics))].filter(([name]) => {
      return name.startsWith("tollgate_route_duration_seconds_count");
    });
    const name = (env: string, route: string) => {
      return `tollgate_route_duration_seconds_count{env="${env}",route="${route}"}`;
    };
    assert.deepEqual(counts, [
      [name("production", "/a"), 2],
      [name("production", "/b"), 1],
      [name("overflow", "overflow"), 2],
    ]);
  });

  it("have one sample of an upstream that two backends of an environment have: 0 where one has it out", async () => {
    const of = (backend: string, up: boolean) => {
      return { environment: "production", backend, origin: "http://a:1", up };
    };
    for (const [all, value] of [
      [[of("/a", true), of("/b", true)], 1],
      [[of("/a", false), of("/b", true)], 0],
      [[of("/a", true), of("/b", false)], 0],
    ] as const) {
      const text = await createPrometheusMetrics({ ...WATCHED, upstreams: () => all }).render();
      const told = samplesOf(text).filter(([name]) => name.startsWith("tollgate_upstream_up"));
      assert.deepEqual(told, [
        ['tollgate_upstream_up{env="production",upstream="http://a:1"}', value],
      ]);
    }
  });

  it("ask others at each scrape, and show no password of an upstream", async () => {
    let commands = 1;
    let gone = [{ environment: "gone", origin: "http://127.0.0.1:9003", up: true }];
    const metrics = createPrometheusMetrics({
      ...{ ...WATCHED, storeCommands: () => commands },
      upstreams: () => [...gone, ...WATCHED.upstreams()],
    });
    const before = await scrape(metrics);
    assert.equal(before.get("tollgate_store_commands_total"), 1);
    const series = 'tollgate_upstream_up{env="gone",upstream="http://127.0.0.1:9003"}';
    assert.equal(before.get(series), 1);
    [commands, gone] = [5, []];
    const samples = await scrape(metrics);
    assert.equal(samples.get("tollgate_store_commands_total"), 5);
    assert.equal(samples.get(series), undefined, "it was taken out of the configuration");
    assert.equal(samples.get("tollgate_store_up"), 1);
    assert.equal(samples.get("tollgate_log_dropped_total"), 3);
    assert.equal(samples.get("tollgate_http_requests_in_flight"), 7);
    assert.equal(samples.get("tollgate_connections_open"), 5);
    assert.equal(samples.get('tollgate_build_info{version="1.2.3"}'), 1);
    const upstream = (env: string, origin: string) =>
      samples.get(`tollgate_upstream_up{env="${env}",upstream="${origin}"}`);
    assert.equal(upstream("production", "http://127.0.0.1:9001"), 1);
    assert.equal(upstream("staging", "http://127.0.0.1:9002"), 0);
    assert.equal((await metrics.render()).includes("canary"), false);
  });

  it("start the counters of reloads, modes, and bans of each environment at 0", async () => {
    const metrics = createPrometheusMetrics(WATCHED);
    metrics.configured(configWith("aa", false), 0);
    assert.equal((await scrape(metrics)).get('tollgate_bans_total{env="production"}'), 0);
    metrics.reloaded("failure");
    metrics.decidedWithoutStore("local");
    metrics.banned("production");
    const samples = await scrape(metrics);
    assert.equal(samples.get('tollgate_config_reloads_total{result="success"}'), 0);
    assert.equal(samples.get('tollgate_config_reloads_total{result="incomplete"}'), 0);
    assert.equal(samples.get('tollgate_config_reloads_total{result="failure"}'), 1);
    assert.equal(samples.get('tollgate_store_unavailable_decisions_total{mode="local"}'), 1);
    assert.equal(samples.get('tollgate_store_unavailable_decisions_total{mode="deny"}'), 0);
    assert.equal(samples.get('tollgate_bans_total{env="production"}'), 1);
  });

  it("hold at most 1,000 series each whatever comes, with sums that stay true", async () => {
    const metrics = createPrometheusMetrics(WATCHED);
    for (let i = 0; i < 3_000; i++) {
      metrics.request({ ...LINE, env: `e${i}`, plan: `p${i}`, route: `/r${i}` }, TIMES);
      metrics.banned(`e${i}`);
    }
    const text = await metrics.render();
    const perMetric = Map.groupBy(samplesOf(text), ([name]) =>
      name.replace(/\{.*/, "").replace(/_(bucket|sum|count)$/, ""),
    );
    for (const [name, samples] of perMetric) assert.ok(samples.length <= 1_000, name);
    const requests = perMetric.get("tollgate_http_requests_total") ?? [];
    assert.equal(requests.length, 1_000);
    assert.equal(
      requests.reduce((sum, [, value]) => sum + value, 0),
      3_000,
    );
    const bans = new Map(perMetric.get("tollgate_bans_total"));
    assert.equal(bans.get('tollgate_bans_total{env="overflow"}'), 2_001);
    assert.ok(bans.has('tollgate_bans_total{env="e998"}'));
    assert.ok(!bans.has('tollgate_bans_total{env="e999"}'));
  });

  it("follow the conventions of promtool, those of the process too", async () => {
    const metrics = createPrometheusMetrics(WATCHED);
    metrics.request(LINE, TIMES);
    metrics.configured(configWith("aa", true), 0);
    const text = await metrics.render();
    assert.ok(text.endsWith("\n"));
    assertConventions(text);
    const helped = [...text.matchAll(/^# HELP tollgate_(\S+) (.+)$/gm)];
    assert.ok(helped.length > 20);
    for (const [, name, help] of helped) {
      assert.equal(help, METRICS[name as keyof typeof METRICS].help);
    }
    assert.match(text, /^process_cpu_seconds_total /m);
    assert.match(text, /^nodejs_eventloop_lag_p99_seconds /m);
    const unknown = createPrometheusMetrics({ ...WATCHED, inFlight: () => Number.NaN });
    assert.match(await unknown.render(), /^tollgate_http_requests_in_flight NaN$/m);
  });

  it("let other work run after each one while they are rendered", async () => {
    const metrics = createPrometheusMetrics(WATCHED);
    let turns = 0;
    let isRendered = false;
    const count = () => {
      turns += 1;
      if (!isRendered) setImmediate(count);
    };
    setImmediate(count);
    const text = await metrics.render();
    isRendered = true;
    const rendered = text.match(/^# TYPE /gm)?.length ?? 0;
    assert.ok(rendered > 50 && turns >= rendered, `${turns} turns for ${rendered} metrics`);
  });

  it("watch the process once, however many gateways are in it", async () => {
    createPrometheusMetrics(WATCHED);
    const observe = vi.spyOn(PerformanceObserver.prototype, "observe");
    onTestFinished(() => observe.mockRestore());
    assert.match(await createPrometheusMetrics(WATCHED).render(), /^nodejs_gc_duration_seconds_/m);
    assert.equal(observe.mock.calls.length, 0);
  });

  it("cost less than 5 µs a request", () => {
    const metrics = createPrometheusMetrics(WATCHED);
    const eachMs = Array.from({ length: 60 }, () => {
      const startMs = performance.now();
      for (let i = 0; i < 2_000; i++) metrics.request({ ...LINE, status: 200 + (i % 5) }, TIMES);
      return (performance.now() - startMs) / 2_000;
    });
    // Other work of the machine stands in the way of most of these, and never of all.
    const bestMs = Math.min(...eachMs);
    assert.ok(bestMs < 0.005, `${(bestMs * 1e6).toFixed(0)} ns`);
  });
});

function configWith(hash: string, deprecated: boolean) {
  const operation: Operation = {
    method: "GET",
    operationId: "getPet",
    template: "/v1/pets/{petId}",
    segments: ["", "v1", "pets", undefined],
    hasRequestBody: false,
    requiresScope: false,
    scopes: [],
    isPublic: false,
    cost: 1,
    limits: undefined,
    lifecycle: { deprecated },
  };
  const routes = { basePath: "/v1", operations: [operation] };
  const environments = [
    { name: "production", routes, services: [] } as unknown as EnvironmentConfig,
  ];
  return { hash, environments, metrics: { routes: 2 } };
}
