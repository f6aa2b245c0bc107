import assert from "node:assert/strict";
import { beforeEach, onTestFinished, test, vi } from "vitest";
import type { Config } from "../../../src/config/config.ts";
import { watchUpstreamsAndSunsets } from "../../../src/server/events/upstream-watcher.ts";
import { createLog } from "../../../src/telemetry/log/log.ts";
import { startNode } from "../../support/gateway/processes.ts";

const DAY_MS = 86_400_000;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  return () => void vi.useRealTimers();
});

/** Resolves after the next look, half a second after the one before, and what follows it. */
async function nextLook(): Promise<void> {
  vi.advanceTimersByTime(500);
  await new Promise((resolve) => setImmediate(resolve));
}

test("a sunset is told at 30 and at 7 days, once the store says that nobody else has", async () => {
  const sunsetMs = 100 * DAY_MS;
  const lifecycle = { deprecated: true, sunsetMs };
  const operations = [{ method: "GET", template: "/v1/a", lifecycle }];
  const routes = { basePath: "/v1", operations };
  const config = { environments: [{ name: "production", routes, services: [] }] };
  const told: unknown[] = [];
  const marked: string[] = [];
  let nowMs = 70 * DAY_MS - 1;
  let store: "away" | "first" | "second" = "away";
  const write = (line: string) => {
    const { kind, days } = JSON.parse(line) as Record<string, unknown>;
    told.push(`${kind} ${days}`);
  };
  const stop = watchUpstreamsAndSunsets({
    config: () => config as unknown as Config,
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
  await nextLook();
  assert.deepEqual(marked, []);
  nowMs += 1;
  await nextLook();
  await nextLook();
  assert.deepEqual([marked.length, told], [2, []]);
  store = "first";
  await nextLook();
  assert.deepEqual(told, ["sunset 30"]);
  nowMs = 93 * DAY_MS - 1;
  await nextLook();
  assert.equal(marked.length, 3);
  [nowMs, store] = [nowMs + 1, "second"];
  await nextLook();
  await nextLook();
  assert.equal(marked.length, 4);
  assert.equal(new Set(marked).size, 2, "one marker for each of both");
  assert.deepEqual(told, ["sunset 30"]);

  const others = { ...lifecycle, sunsetMs: nowMs };
  operations.push({ method: "GET", template: "/v1/over", lifecycle: others });
  operations.push({
    method: "GET",
    template: "/v1/soon",
    lifecycle: { ...others, sunsetMs: nowMs + 1 },
  });
  await nextLook();
  assert.equal(marked.length, 5, "one that is over is not announced, at its instant already");
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
  await nextLook();
  assert.deepEqual(told, [30]);
  isAway = true;
  nowMs = 94 * DAY_MS;
  await nextLook();
  assert.deepEqual([tries, told], [2, [30]]);
  isAway = false;
  await nextLook();
  assert.deepEqual(told, [30, 7]);
});

test("an upstream is told by its service when it goes out and when it is back, and not while it is well", async () => {
  const origin = "http://127.0.0.1:9001";
  const own = { environment: "production", origin: `${origin}/`, up: true };
  const service = { ...own, backend: "/v1/orders", up: true, why: "it refuses connections" };
  const other = { ...own, backend: "/v1/items" };
  const elsewhere = { ...service, environment: "staging" };
  const twin = { ...service, origin: "http://127.0.0.1:9002/" };
  const told: unknown[] = [];
  const write = (line: string) => {
    const { level, kind, env, backend, upstream, why } = JSON.parse(line);
    told.push([level, kind, env, backend, upstream, why]);
  };
  const stop = watchUpstreamsAndSunsets({
    config: () => ({ environments: [] }) as unknown as Config,
    upstreams: () => [own, service, other, elsewhere, twin],
    log: createLog({ write }, "info"),
    quotas: { markFirst: async () => true },
    now: () => 0,
  });
  onTestFinished(stop);
  const look = async () => {
    await nextLook();
    await nextLook();
    return told.splice(0);
  };
  assert.deepEqual(await look(), []);
  service.up = false;
  vi.advanceTimersByTime(499);
  assert.deepEqual(told, [], "it looks twice a second");
  const where = ["production", "/v1/orders", origin];
  assert.deepEqual(await look(), [["error", "upstream_down", ...where, service.why]]);
  service.up = true;
  assert.deepEqual(await look(), [["info", "upstream_up", ...where, undefined]]);
});

test("an upstream that goes out and comes back between two looks is told, once, with the instants and the number of its outages", async () => {
  type Outages = { count: number; downMs: number; upMs?: number; why: string };
  const state = { environment: "production", origin: "http://127.0.0.1:9001/", up: true };
  let upstream: typeof state & { outages?: Outages } = state;
  const told: unknown[] = [];
  let nowMs = 2_000;
  const write = (line: string) => {
    const { time, kind, why, outages } = JSON.parse(line);
    told.push([time, kind, why, outages]);
  };
  const stop = watchUpstreamsAndSunsets({
    config: () => ({ environments: [] }) as unknown as Config,
    upstreams: () => [upstream],
    log: createLog({ write }, "info"),
    quotas: { markFirst: async () => true },
    now: () => nowMs,
  });
  onTestFinished(stop);
  const look = async (up: boolean, count: number, downMs: number, upMs?: number) => {
    const outages = { count, downMs, ...(upMs && { upMs }), why: "ECONNRESET" };
    upstream = { ...state, up, outages };
    await nextLook();
    await nextLook();
    return told.splice(0);
  };
  const down = (time: number, outages?: number) => [time, "upstream_down", "ECONNRESET", outages];
  const up = (time: number, outages?: number) => [time, "upstream_up", undefined, outages];
  assert.deepEqual(await look(true, 1, 100, 110), [down(100), up(110)]);
  assert.deepEqual(await look(true, 401, 700, 710), [down(700, 400), up(710)]);
  assert.deepEqual(await look(false, 402, 800, 710), [down(800)]);
  assert.deepEqual(await look(false, 405, 900, 899), [up(899), down(900, 3)]);
  // Another process was out before this one came back.
  assert.deepEqual(await look(false, 405, 920, 925), []);
  assert.deepEqual(await look(true, 406, 950, 960), [up(960, 1)]);
  // Another process, which had gone out less often.
  assert.deepEqual(await look(true, 406, 990, 995), [down(990), up(995)]);
  // Two more, whose statuses come later: one as often, one more often.
  assert.deepEqual(await look(true, 406, 992, 997), []);
  assert.deepEqual(await look(true, 407, 996, 998), []);
  assert.deepEqual(await look(true, 407, 1_000, 1_001), [down(1_000), up(1_001)]);
  // The process with the most has ended.
  assert.deepEqual(await look(true, 2, 940, 945), []);
  assert.deepEqual(await look(false, 3, 1_100, 945), [down(1_100)]);
  // The one that had it down has ended: it is back for the others since now, not since long ago.
  const [[time, ...back] = []] = (await look(true, 2, 940, 945)) as unknown[][];
  assert.deepEqual(back, ["upstream_up", undefined, undefined]);
  assert.ok(Number(time) > 1_100, `${time}`);
  nowMs = 500;
  assert.deepEqual(await look(true, 2, 940, 945), []);
  nowMs = 600;
  assert.deepEqual(await look(true, 3, 510, 520), [down(510), up(520)]);
});

test("a sunset of an operation of a service is told too, and none of an operation that is not deprecated", async () => {
  const sunsetMs = 20 * DAY_MS + 1;
  const of = (template: string, deprecated: boolean) => {
    return { operations: [{ method: "GET", template, lifecycle: { deprecated, sunsetMs } }] };
  };
  const services = [
    { routes: of("/v1/orders/old", true) },
    { routes: of("/v1/orders/new", false) },
  ];
  const config = { environments: [{ name: "production", routes: {}, services }] };
  const told: Record<string, unknown>[] = [];
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
    now: () => 1,
  });
  onTestFinished(stop);
  await nextLook();
  await nextLook();
  assert.equal(told.length, 1);
  const { level, env, method, route, days, sunset } = told[0] ?? {};
  assert.deepEqual(
    [level, env, method, route, days, sunset],
    ["warn", "production", "GET", "/v1/orders/old", 30, 1_728_001],
  );
  assert.deepEqual(marks, [[`sunset production GET /v1/orders/old ${sunsetMs} 30`, 21]]);
});

test("no look, note, message or reading that has its turn later keeps a process from its end", async () => {
  const source = new URL("../../../src/", import.meta.url);
  const program = `
    import { ReadingHistory } from "${source}admin/reading-history.ts";
    import { ActivityRecorder } from "${source}server/events/activity-recorder.ts";
    import { RecordChangeWatcher } from "${source}server/events/record-change-watcher.ts";
    import { watchUpstreamsAndSunsets } from "${source}server/events/upstream-watcher.ts";
    import { UsageEventSender } from "${source}server/events/usage-event-sender.ts";
    import { GatewayAnnouncer } from "${source}server/process/gateway-announcer.ts";
    import { Webhook } from "${source}telemetry/log/webhook.ts";
    watchUpstreamsAndSunsets({ upstreams: () => [], config: () => ({ environments: [] }) });
    new ActivityRecorder({});
    new UsageEventSender({ config: () => ({}), now: () => 0 }).start();
    new ReadingHistory(() => ({ durations: {} }));
    const events = { url: "http://127.0.0.1:1/", secret: "whsec_AA==", kinds: ["all"] };
    new Webhook(events, Date.now).take({ kind: "ban_lifted", time: 1 });
    const metrics = { tables: { requests: new Map() }, configuration: () => ({}) };
    const gateways = { announce: async () => {} };
    new GatewayAnnouncer({ name: "one", gateways, metrics, checks: () => ({}), now: Date.now }).start();
    const account = { id: "a", environment: "production", plan: "free", limits: [], meta: {} };
    let [records, change] = [{ keys: [], accounts: [account] }];
    const onChange = (heard) => (change = heard);
    const keys = { ready: true, records: () => records, onChange };
    const quotas = { markFirst: () => Promise.reject(new Error("away")) };
    new RecordChangeWatcher({ keys, quotas });
    records = { keys: [], accounts: [{ ...account, plan: "pro" }] };
    change();
  `;
  const running = startNode(["--input-type=module", "-e", program]);
  onTestFinished(() => void running.kill());
  const { code, stderr } = await running.exited;
  assert.deepEqual([code, stderr], [0, ""]);
});

test("a backend that was removed while it was down is not told of as up when it is named again", async () => {
  const told: unknown[] = [];
  const write = (line: string) => void told.push(JSON.parse(line).kind);
  const backend = { environment: "production", origin: "http://127.0.0.1:9" };
  let upstreams = [{ ...backend, up: false }];
  const stop = watchUpstreamsAndSunsets({
    config: () => ({ environments: [] }) as unknown as Config,
    upstreams: () => upstreams,
    log: createLog({ write }, "info"),
    quotas: { markFirst: async () => false },
    now: () => 0,
  });
  onTestFinished(stop);
  await nextLook();
  upstreams = [];
  await nextLook();
  upstreams = [{ ...backend, up: false }];
  await nextLook();
  assert.deepEqual(told, ["upstream_down"], "no worker served for a moment");
  upstreams = [{ ...backend, origin: "http://127.0.0.1:10", up: true }];
  await nextLook();
  upstreams = [{ ...backend, up: true }];
  await nextLook();
  assert.deepEqual(told, ["upstream_down"], "it has answered nothing yet");
  upstreams = [{ ...backend, up: false }];
  await nextLook();
  upstreams = [{ ...backend, up: true }];
  await nextLook();
  assert.deepEqual(told, ["upstream_down", "upstream_down", "upstream_up"]);
});
