import assert from "node:assert/strict";
import { onTestFinished, test } from "vitest";
import type { Config } from "../../../src/config/config.ts";
import { watchUpstreamsAndSunsets } from "../../../src/server/events/upstream-watcher.ts";
import { createLog } from "../../../src/telemetry/log/log.ts";
import { eventually } from "../../support/poll.ts";

const DAY_MS = 86_400_000;
const WAIT = { withinMs: 60_000 };

test("a sunset is told at 30 and at 7 days, once the store says that nobody else has", async () => {
  const sunsetMs = 100 * DAY_MS;
  const lifecycle = { deprecated: true, sunsetMs };
  const operations = [{ method: "GET", template: "/v1/a", lifecycle }];
  const routes = { basePath: "/v1", operations };
  const config = { environments: [{ name: "production", routes, services: [] }] };
  const told: unknown[] = [];
  const marked: string[] = [];
  let nowMs = 60 * DAY_MS;
  let store: "away" | "first" | "second" = "away";
  const write = (line: string) => {
    const { kind, days } = JSON.parse(line) as Record<string, unknown>;
    told.push(`${kind} ${days}`);
  };
  let looks = 0;
  const stop = watchUpstreamsAndSunsets({
    config: () => {
      looks += 1;
      return config as unknown as Config;
    },
    upstreams: () => [],
    log: createLog({ write }, "info"),
    quotas: {
      markFirst: async (marker) => {
        marked.push(marker);
        if (store === "away") throw new Error("away");
        return store === "first";
      },
    },
    now: () => nowMs,
  });
  onTestFinished(stop);
  nowMs = 80 * DAY_MS;
  await eventually(() => assert.ok(marked.length >= 2), WAIT);
  assert.deepEqual(told, []);
  store = "first";
  await eventually(() => assert.deepEqual(told, ["sunset 30"]), WAIT);
  const asked = marked.length;
  nowMs = 94 * DAY_MS;
  store = "second";
  await eventually(() => assert.equal(marked.length, asked + 1), WAIT);
  assert.equal(new Set(marked).size, 2, "one marker for each of both");
  assert.deepEqual(told, ["sunset 30"]);

  const others = { ...lifecycle, sunsetMs: 94 * DAY_MS };
  operations.push({ method: "GET", template: "/v1/over", lifecycle: others });
  operations.push({
    method: "GET",
    template: "/v1/soon",
    lifecycle: { ...others, sunsetMs: nowMs + 1 },
  });
  const looked = looks;
  await eventually(() => assert.ok(looks > looked + 1), WAIT);
  assert.equal(
    marked.length,
    asked + 2,
    "one that is over is not announced, at its instant already",
  );
});

test("a sunset that the store could not be asked about at 7 days is told at 7 days, when it can", async () => {
  const lifecycle = { deprecated: true, sunsetMs: 100 * DAY_MS };
  const routes = { operations: [{ method: "GET", template: "/v1/a", lifecycle }] };
  const config = { environments: [{ name: "production", routes, services: [] }] };
  const told: unknown[] = [];
  let nowMs = 80 * DAY_MS;
  let tries = 0;
  let isAway = false;
  const stop = watchUpstreamsAndSunsets({
    config: () => config as unknown as Config,
    upstreams: () => [],
    log: createLog({ write: (line: string) => told.push(JSON.parse(line).days) }, "info"),
    quotas: {
      markFirst: async () => {
        tries += 1;
        if (isAway) throw new Error("away");
        return true;
      },
    },
    now: () => nowMs,
  });
  onTestFinished(stop);
  await eventually(() => assert.deepEqual(told, [30]), WAIT);
  isAway = true;
  nowMs = 94 * DAY_MS;
  await eventually(() => assert.equal(tries, 2), WAIT);
  isAway = false;
  await eventually(() => assert.deepEqual(told, [30, 7]), WAIT);
});

test("an upstream is told by its service when it goes out and when it is back, and not while it is well", async () => {
  const origin = "http://127.0.0.1:9001";
  const own = { environment: "production", origin, up: true };
  const service = { ...own, backend: "/v1/orders", up: true };
  const other = { ...own, backend: "/v1/items" };
  const told: unknown[] = [];
  let looks = 0;
  const write = (line: string) => {
    const { level, kind, backend, upstream } = JSON.parse(line);
    told.push([level, kind, backend, upstream]);
  };
  const stop = watchUpstreamsAndSunsets({
    config: () => ({ environments: [] }) as unknown as Config,
    upstreams: () => {
      looks += 1;
      return [own, service, other];
    },
    log: createLog({ write }, "info"),
    quotas: { markFirst: async () => true },
    now: () => 0,
  });
  onTestFinished(stop);
  const look = async () => {
    const before = looks;
    await eventually(() => assert.ok(looks > before + 1), WAIT);
    return told.splice(0);
  };
  assert.deepEqual(await look(), []);
  service.up = false;
  assert.deepEqual(await look(), [["error", "upstream_down", "/v1/orders", origin]]);
  service.up = true;
  assert.deepEqual(await look(), [["info", "upstream_up", "/v1/orders", origin]]);
});

test("a sunset of an operation of a service is told too, and none of an operation that is not deprecated", async () => {
  const sunsetMs = 20 * DAY_MS;
  const of = (template: string, deprecated: boolean) => {
    return { operations: [{ method: "GET", template, lifecycle: { deprecated, sunsetMs } }] };
  };
  const services = [
    { routes: of("/v1/orders/old", true) },
    { routes: of("/v1/orders/new", false) },
  ];
  const config = { environments: [{ name: "production", routes: {}, services }] };
  const told: unknown[] = [];
  const marks: unknown[] = [];
  const stop = watchUpstreamsAndSunsets({
    config: () => config as unknown as Config,
    upstreams: () => [],
    log: createLog({ write: (line: string) => told.push(JSON.parse(line)) }, "info"),
    quotas: {
      markFirst: async (marker, lifeMs) => {
        marks.push([marker, lifeMs / DAY_MS]);
        return true;
      },
    },
    now: () => 0,
  });
  onTestFinished(stop);
  const [only] = (await eventually(() => {
    assert.equal(told.length, 1);
    return told;
  }, WAIT)) as Record<string, unknown>[];
  const { level, method, route, days, sunset } = only ?? {};
  assert.deepEqual(
    [level, method, route, days, sunset],
    ["warn", "GET", "/v1/orders/old", 30, 1_728_000],
  );
  assert.deepEqual(marks, [[`sunset production GET /v1/orders/old ${sunsetMs} 30`, 21]]);
});
