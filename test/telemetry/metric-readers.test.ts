import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  histogramTables,
  type MetricSources,
  metricReaders,
  type ScalarMetricName,
} from "../../src/telemetry/metrics/metric-readers.ts";
import { METRICS } from "../../src/telemetry/metrics/metrics.ts";
import {
  createMetricsRecorder,
  type MetricsRecorder,
} from "../../src/telemetry/metrics/metrics-recorder.ts";
import { isLabelled } from "../../src/telemetry/metrics/request-metrics.ts";
import { UNWATCHED } from "../admin/admin-house.ts";

const NUMBERS = [
  ...["inFlight", "connections", "tunnels", "keys", "accounts", "keysDamaged", "keysUnreadable"],
  ...["keysOlder", "stateFileUnwritten", "keysLost", "storeCommands", "chargesUncertain"],
  ...["chargesLost", "chargesOwed", "logDropped", "eventsDropped", "telemetryDropped"],
] as const;

/** All that each metric of one value tells, by its name. */
function told(metricSources: MetricSources, metrics: MetricsRecorder = createMetricsRecorder()) {
  const rows = Object.entries(metricReaders(metricSources, metrics)).map(([name, read]) => {
    return [name, read && [...read()]] as const;
  });
  return Object.fromEntries(rows) as Record<ScalarMetricName, unknown[] | undefined>;
}

describe("a metric", () => {
  it("tells the one source that it is named for", () => {
    const numbers = NUMBERS.map((name, i) => [name, () => i + 1] as const);
    const workers = () => ({ serving: 101, restarts: 102 });
    const rows = told({ ...UNWATCHED, ...Object.fromEntries(numbers), workers });
    const values = Object.entries(rows).flatMap(([name, samples]) => {
      const [[labels, value] = [{}, 0]] = samples as [Record<string, string>, number][];
      return value > 0 && Object.keys(labels).length === 0 ? [[name, value]] : [];
    });
    const place = (name: (typeof NUMBERS)[number]) => NUMBERS.indexOf(name) + 1;
    assert.deepEqual(Object.fromEntries(values), {
      http_requests_in_flight: place("inFlight"),
      connections_open: place("connections"),
      tunnels_open: place("tunnels"),
      store_up: 1,
      store_commands_total: place("storeCommands"),
      charges_uncertain_total: place("chargesUncertain"),
      charges_lost_total: place("chargesLost"),
      keys: place("keys"),
      accounts: place("accounts"),
      keys_damaged: place("keysDamaged"),
      keys_unreadable_total: place("keysUnreadable"),
      keys_older_total: place("keysOlder"),
      state_file_unwritten_total: place("stateFileUnwritten"),
      keys_lost: place("keysLost"),
      log_dropped_total: place("logDropped"),
      events_dropped_total: place("eventsDropped"),
      telemetry_dropped_total: place("telemetryDropped"),
      workers: 101,
      worker_restarts_total: 102,
    });
    assert.deepEqual(rows.charges_owed, [[{ gateway: "a-gateway" }, place("chargesOwed")]]);
  });

  it("of yes or no is 1 or 0, and one of several processes is none of a single one", () => {
    for (const [yes, value] of [
      [true, 1],
      [false, 0],
    ] as const) {
      const flag = () => yes;
      const checks = () => ({ ...UNWATCHED.checks(), store: { ok: yes } });
      const flags = { storeUp: flag, storeUnsafePolicy: flag, storeSplit: flag, checks };
      const rows = told({ ...UNWATCHED, ...flags });
      const all = [rows.store_up, rows.store_unsafe_policy, rows.store_split];
      assert.deepEqual(all, [[[{}, value]], [[{}, value]], [[{}, value]]]);
      const ready = rows.ready as unknown[];
      assert.deepEqual(ready[0], [{ check: "config" }, 1]);
      assert.deepEqual(ready[1], [{ check: "store" }, value]);
      assert.deepEqual([rows.workers, rows.worker_restarts_total], [undefined, undefined]);
    }
  });

  it("of version, configuration and its instant has each as it is", () => {
    const metrics = createMetricsRecorder();
    const config = { hash: "abc", environments: [], metrics: { routes: 1 } } as never;
    metrics.configured(config, 1_500);
    const rows = told({ ...UNWATCHED, version: "1.2.3" }, metrics);
    assert.deepEqual(rows.build_info, [[{ version: "1.2.3" }, 1]]);
    assert.deepEqual(rows.config_info, [[{ hash: "abc" }, 1]]);
    assert.deepEqual(rows.config_last_reload_success_timestamp_seconds, [[{}, 1.5]]);
  });

  it("of an upstream is told for each environment that has it, as the worst of its backends there", () => {
    const origin = "http://127.0.0.1:9001";
    const of = (environment: string, up: boolean) => ({ environment, origin, up });
    const other = { ...of("production", true), origin: "http://127.0.0.1:9002" };
    const upstreams = () => {
      return [of("production", false), of("staging", true), of("production", true), other];
    };
    const rows = told({ ...UNWATCHED, upstreams });
    assert.deepEqual(rows.upstream_up, [
      [{ env: "production", upstream: origin }, 0],
      [{ env: "staging", upstream: origin }, 1],
      [{ env: "production", upstream: other.origin }, 1],
    ]);
  });

  it("of a certificate is the second in which the first of its kind ends", () => {
    const of = (certificate: "listener" | "upstream_ca", endsMs: number) => {
      return { environment: "production", certificate, endsMs };
    };
    const certificates = () => [
      of("listener", 9_999),
      of("upstream_ca", 500),
      of("listener", 1_999),
    ];
    const rows = told({ ...UNWATCHED, certificates });
    assert.deepEqual(rows.certificate_expiry_timestamp_seconds, [
      [{ env: "production", certificate: "listener" }, 1],
      [{ env: "production", certificate: "upstream_ca" }, 0],
    ]);
  });

  it("of an upstream or a certificate has at most a thousand series", () => {
    const names = Array.from({ length: 1_001 }, (_, i) => `e${i}`);
    const upstreams = () => {
      return names.map((environment) => ({ environment, origin: "http://a:1", up: true }));
    };
    const certificates = () => {
      return names.map((environment) => {
        return { environment, certificate: "listener", endsMs: 1 } as const;
      });
    };
    const rows = told({ ...UNWATCHED, upstreams, certificates });
    assert.equal(rows.upstream_up?.length, 1_000);
    assert.equal(rows.certificate_expiry_timestamp_seconds?.length, 1_000);
  });

  it("of each request has the table that is named for it", () => {
    const metrics = createMetricsRecorder();
    const { tables } = metrics;
    const named = {
      http_requests_total: tables.requests,
      decisions_total: tables.decisions,
      charged_total: tables.charged,
      forwards_total: tables.forwards,
      auth_failures_total: tables.failures,
      refusals_total: tables.refusals,
      deprecated_requests_total: tables.deprecated,
      observed_refusals_total: tables.observed,
      meter_units_total: tables.meterUnits,
      config_reloads_total: tables.reloads,
    };
    const names = Object.keys(named) as (keyof typeof named)[];
    for (const [i, name] of names.entries()) {
      const { labelNames } = named[name];
      named[name].cell(...labelNames).value += i + 1;
    }
    const rows = told(UNWATCHED, metrics);
    for (const [i, name] of names.entries()) {
      const labels = Object.fromEntries(METRICS[name].labels.map((label) => [label, label]));
      assert.deepEqual(rows[name]?.at(-1), [labels, i + 1]);
    }
  });

  it("of a count tells the table that is counted in", () => {
    const metrics = createMetricsRecorder();
    metrics.turnedAway("address");
    metrics.decidedWithoutStore("local");
    for (let i = 0; i < 3; i++) metrics.shareRefused();
    metrics.banned("production");
    metrics.reloaded("success");
    const rows = told(UNWATCHED, metrics);
    const zero = (why: string) => [{ why }, 0];
    const refused = [zero("connections"), [{ why: "address" }, 1], zero("memory")];
    assert.deepEqual(rows.connections_refused_total, refused);
    const without = ["local", "deny", "allow"].map((mode, i) => [{ mode }, i === 0 ? 1 : 0]);
    assert.deepEqual(rows.store_unavailable_decisions_total, without);
    assert.deepEqual(rows.share_refusals_total, [[{}, 3]]);
    assert.deepEqual(told(UNWATCHED).share_refusals_total, [[{}, 0]], "before the first one");
    assert.deepEqual(rows.bans_total, [[{ env: "production" }, 1]]);
    assert.deepEqual(rows.meter_over_max_total, [[{}, 0]]);
    const reloads = ["success", "incomplete", "failure"].map((result, i) => [
      { result },
      i === 0 ? 1 : 0,
    ]);
    assert.deepEqual(rows.config_reloads_total, reloads);
  });
});

describe("a histogram", () => {
  it("has the boundaries of OpenTelemetry, or shorter ones for what is the gateway's or the store's", () => {
    const usual = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10];
    const short = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1];
    assert.deepEqual(METRICS.http_request_duration_seconds.buckets, usual);
    assert.deepEqual(METRICS.route_duration_seconds.buckets, usual);
    assert.deepEqual(METRICS.upstream_duration_seconds.buckets, usual);
    assert.deepEqual(METRICS.overhead_duration_seconds.buckets, short);
    assert.deepEqual(METRICS.store_call_duration_seconds.buckets, short);
  });

  it("has at most a thousand series, those of its boundaries, sum and count included", () => {
    const tables = histogramTables(createMetricsRecorder().tables);
    for (const [name, { cellsMax }] of Object.entries(tables)) {
      const { buckets } = METRICS[name as keyof typeof tables];
      const series = buckets.length + 3;
      assert.ok(cellsMax * series <= 1_000 && (cellsMax + 1) * series > 1_000, name);
    }
  });
});

it("a method has a label of its own if it is served, or TRACE, as it is written", () => {
  const own = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"];
  assert.deepEqual(
    [...own, "CONNECT", "get", "BREW", ""].filter((method) => isLabelled(method)),
    own,
  );
});
