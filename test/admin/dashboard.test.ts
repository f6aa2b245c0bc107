import assert from "node:assert/strict";
import { setImmediate, setTimeout as sleep } from "node:timers/promises";
import { beforeEach, describe, it, vi } from "vitest";
import { BackgroundValue } from "../../src/admin/background-value.ts";
import { Dashboard, type DashboardSources } from "../../src/admin/dashboard-stats.ts";
import type { AccountBan } from "../../src/stores/quotas/quota-store.ts";
import { RecentRefusals } from "../../src/telemetry/history/diagnostics.ts";
import { RecentEvents } from "../../src/telemetry/history/recent-events.ts";
import type { MetricSources } from "../../src/telemetry/metrics/metric-readers.ts";
import { observeDuration } from "../../src/telemetry/metrics/metric-vec.ts";
import { createMetricsRecorder } from "../../src/telemetry/metrics/metrics-recorder.ts";
import { increment } from "../../src/telemetry/metrics/request-metrics.ts";
import { DEFAULT_BANS } from "../support/gateway/default-bans.ts";
import { watchStalls } from "../support/in-time.ts";
import { eventually } from "../support/poll.ts";
import { type AdminHouse, ALL_WELL, openAdminHouse, UNWATCHED } from "./admin-house.ts";

/** Sooner than after the 5 s that bans are not read for unless something tells of one. */
const AT_ONCE_MS = 2_500;
const NAME = { environment: "production", account: "a_1" };

/** The figures of a house, with the real memory store; `bans` counts how often it was asked. */
function dashboardOf(house: AdminHouse, over: Partial<DashboardSources> = {}) {
  const recent = new RecentEvents();
  const asked = { bans: 0 };
  const quotas = {
    gateways: house.quotas.gateways,
    bans: () => {
      asked.bans += 1;
      return house.quotas.bans();
    },
  };
  const dashboard = new Dashboard({
    ...{ metricSources: { ...UNWATCHED, storeUp: () => true }, metrics: createMetricsRecorder() },
    ...{
      quotas,
      keys: house.keys,
      config: () => ({ bans: DEFAULT_BANS }),
      recent,
      diagnostics: new RecentRefusals({ open: () => [], tellStore: async () => {} }),
      checks: () => ALL_WELL,
    },
    ...{ name: "a-gateway", now: () => house.clock.nowMs },
    ...over,
  });
  return { dashboard, recent, asked };
}

function ban(house: AdminHouse, lengthMs: number) {
  const imposed = { window: "minute", keptMs: 1_000, plan: "free", reason: "" } as const;
  return house.quotas.ban(NAME, { ...imposed, lengthMs });
}

describe("the keys and accounts", () => {
  it("have another edition after each change, and no other without one", async () => {
    await using house = await openAdminHouse();
    const { dashboard } = dashboardOf(house);
    const edition = async () => (await dashboard.read()).records.edition;
    const first = await edition();
    assert.equal(await edition(), first);
    const body = { environment: "production", plan: "free", account: "a_1" };
    assert.equal((await house.ask("POST", "/api/keys", { body })).status, 201);
    const second = await edition();
    assert.ok(second > first, "a key was issued");
    assert.equal((await house.ask("POST", "/api/accounts/a_1/suspend", { body: {} })).status, 200);
    const third = await edition();
    assert.ok(third > second, "an account was suspended");
    assert.equal(await edition(), third);
  });
});

describe("the bans in force", () => {
  it("are read again at once after an event of one, and end by the clock without a reading", async () => {
    await using house = await openAdminHouse();
    const { dashboard, recent, asked } = dashboardOf(house);
    assert.equal((await dashboard.read()).bans.inForce, 0);
    await ban(house, 60_000);
    house.clock.nowMs += 59_000;
    assert.equal(
      (await dashboard.read()).bans.inForce,
      0,
      "nothing told of it, and 5 s are not over",
    );
    recent.add({ kind: "quota", time: 1, gateway: "g" });
    await dashboard.read();
    assert.equal(asked.bans, 1);
    recent.add({ kind: "ban", time: 2, gateway: "g" });
    // Between two readings there is a pause, by what the last one took.
    const { bans } = await eventually(async () => {
      const read = await dashboard.read();
      assert.deepEqual([read.bans.inForce, asked.bans], [1, 2]);
      return read;
    });
    const again = await dashboard.read();
    assert.equal(again.bans.edition, bans.edition, "the list is as it was");
    const later = await eventually(async () => {
      const read = await dashboard.read();
      assert.deepEqual([read.bans.inForce, asked.bans], [0, 2]);
      return read;
    });
    assert.ok(later.bans.edition > bans.edition, "the list of the page is not as it was");
  });

  it.for([60_000, -60_000])(
    "are those of the store, with a clock of the gateway that is %i ms ahead",
    async (aheadMs) => {
      await using house = await openAdminHouse();
      await ban(house, 60_000);
      const { dashboard } = dashboardOf(house, { now: () => house.clock.nowMs + aheadMs });
      assert.equal((await dashboard.read()).bans.inForce, 1);
      house.clock.nowMs += 60_000;
      const { dashboard: next } = dashboardOf(house, { now: () => house.clock.nowMs + aheadMs });
      assert.equal((await next.read()).bans.inForce, 0);
    },
  );

  it("are read again at once after one that this gateway counted, whose event has not come", async () => {
    await using house = await openAdminHouse();
    const metrics = createMetricsRecorder();
    const { dashboard, asked } = dashboardOf(house, { metrics });
    await eventually(async () => assert.equal((await dashboard.read()).bans.inForce, 0));
    await ban(house, 60_000);
    metrics.banned("production");
    const { bans } = await eventually(
      async () => {
        const read = await dashboard.read();
        assert.equal(asked.bans, 2);
        return read;
      },
      { withinMs: AT_ONCE_MS },
    );
    assert.deepEqual([bans.inForce, bans.imposed], [1, 1]);
    await dashboard.read();
    assert.equal(asked.bans, 2, "the count is as it was when they were read");
  });

  it("are read again at once after one was lifted", async () => {
    await using house = await openAdminHouse();
    const { dashboard, recent } = dashboardOf(house);
    await ban(house, 60_000);
    await eventually(async () => assert.equal((await dashboard.read()).bans.inForce, 1));
    await house.quotas.liftBan(NAME);
    recent.add({ kind: "ban_lifted", time: 2, gateway: "g" });
    const withinMs = AT_ONCE_MS;
    await eventually(async () => assert.equal((await dashboard.read()).bans.inForce, 0), {
      withinMs,
    });
  });

  it("are not waited for longer than others can bear", async () => {
    await using house = await openAdminHouse();
    const stuck = { gateways: house.quotas.gateways, bans: () => new Promise<never>(() => {}) };
    const { dashboard } = dashboardOf(house, { quotas: stuck });
    const startMs = performance.now();
    const { value, stalledMs } = await watchStalls(() => dashboard.read());
    assert.equal(value.bans.inForce, null);
    assert.ok(performance.now() - startMs < 2_000 + stalledMs);
  });

  it("are asked for once a minute at most while no page is open", async () => {
    await using house = await openAdminHouse();
    const { dashboard, recent, asked } = dashboardOf(house);
    dashboard.readIdle();
    await eventually(() => assert.equal(dashboard.readIdle().bans.inForce, 0));
    recent.add({ kind: "ban", time: 2, gateway: "g" });
    dashboard.readIdle();
    assert.equal(asked.bans, 1);
  });
});

describe("data of the store and of other processes", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["performance"] });
    return () => vi.useRealTimers();
  });

  it("are each read again at an age of their own, and bans alone while no page is open", async () => {
    await using house = await openAdminHouse();
    const asked = { bans: 0, refused: 0, gateways: 0 };
    const count = (name: keyof typeof asked) => async () => {
      asked[name] += 1;
      return [];
    };
    const quotas = { bans: count("bans"), gateways: { list: count("gateways") } };
    const diagnostics = { refused: count("refused") };
    const metrics = createMetricsRecorder();
    metrics.banned("production");
    const { dashboard } = dashboardOf(house, { quotas, diagnostics, metrics });
    const seenAfter = async (ms: number) => {
      vi.advanceTimersByTime(ms);
      await dashboard.read();
      return [asked.bans, asked.refused, asked.gateways];
    };
    assert.deepEqual(await seenAfter(0), [1, 1, 1]);
    assert.deepEqual(await seenAfter(899), [1, 1, 1]);
    assert.deepEqual(await seenAfter(1), [1, 1, 2]);
    assert.deepEqual(await seenAfter(2_099), [1, 1, 3]);
    assert.deepEqual(await seenAfter(1), [1, 2, 3]);
    assert.deepEqual(await seenAfter(1_999), [1, 2, 4]);
    assert.deepEqual(await seenAfter(1), [2, 2, 4]);
    const idle = async (ms: number) => {
      vi.advanceTimersByTime(ms);
      dashboard.readIdle();
      await setImmediate();
      return [asked.bans, asked.refused, asked.gateways];
    };
    assert.deepEqual(await idle(59_999), [2, 2, 4]);
    assert.deepEqual(await idle(1), [3, 2, 4]);
  });

  it("are read seldom where that takes long: bans for a tenth of the time, and for a 500th while no page is open", async () => {
    await using house = await openAdminHouse();
    let reads = 0;
    const slow = async () => {
      reads += 1;
      vi.advanceTimersByTime(1_000);
      return [];
    };
    const { dashboard, recent } = dashboardOf(house, {
      quotas: { gateways: house.quotas.gateways, bans: slow },
    });
    const told = () => recent.add({ kind: "ban", time: 1, gateway: "g" });
    const readsAfter = async (ms: number, read: () => unknown) => {
      vi.advanceTimersByTime(ms);
      told();
      await read();
      await setImmediate();
      return reads;
    };
    const shown = () => dashboard.read();
    const idle = () => dashboard.readIdle();
    assert.equal(await readsAfter(0, shown), 1);
    assert.equal(await readsAfter(9_999, shown), 1);
    assert.equal(await readsAfter(1, shown), 2);
    assert.equal(await readsAfter(499_999, idle), 2);
    assert.equal(await readsAfter(1, idle), 3);
  });
});

describe("the figures", () => {
  it("have each number of the gateway in its place, and of decisions those that admit or refuse", async () => {
    await using house = await openAdminHouse();
    const metrics = createMetricsRecorder();
    for (const [decision, requests] of [
      ["none", 4],
      ["admitted", 2],
      ["refused", 3],
    ] as const) {
      for (let i = 0; i < requests; i++) {
        increment(metrics.tables.decisions.cell("production", "free", decision));
      }
    }
    increment(metrics.tables.decisions.cell("staging", "free", "admitted"));
    const metricSources: MetricSources = {
      ...{ ...UNWATCHED, version: "1.2.3", inFlight: () => 4, tunnels: () => 3 },
      upstreams: () => [{ environment: "production", origin: "http://a:1", up: true }],
      ...{ storeUp: () => false, storeCommands: () => 5, logDropped: () => 6 },
      workers: () => ({ serving: 2, restarts: 1 }),
    };
    const { charged, forwards, deprecated, requests } = metrics.tables;
    for (let i = 0; i < 7; i++) increment(charged.cell("production"));
    for (let i = 0; i < 8; i++) increment(forwards.cell("production"));
    increment(deprecated.cell("production", "/v1/pets/{petId}", "GET"));
    increment(requests.cell("production", "none", "GET", 200, "backend"));
    increment(requests.cell("production", "none", "GET", 401, "gateway"));
    increment(charged.cell("staging"));
    increment(requests.cell("staging", "none", "GET", 200, "backend"));
    increment(metrics.tables.decisions.cell("staging", "free", "refused"));
    const hash = "h";
    metrics.configured({ hash, environments: [], metrics: { routes: 0 } }, 9);
    const told = dashboardOf(house, { metrics, metricSources }).dashboard.readIdle();
    assert.deepEqual([told.charged, told.forwards], [8, 8]);
    const operation = { environment: "production", route: "/v1/pets/{petId}", method: "GET" };
    assert.deepEqual(told.deprecated, [{ ...operation, requests: 1 }]);
    assert.deepEqual([told.answered, told.ownAnswers], [{ 200: 2, 401: 1 }, { 401: 1 }]);
    assert.deepEqual([told.upstreams, told.checks], [metricSources.upstreams(), ALL_WELL]);
    assert.deepEqual(told.config, { hash, configuredMs: 9 });
    const { version, inFlight, tunnels, store, logDropped, workers, plans } = told;
    assert.deepEqual([version, inFlight, tunnels, logDropped], ["1.2.3", 4, 3, 6]);
    assert.deepEqual(
      [store, workers],
      [
        { up: false, commands: 5 },
        { serving: 2, restarts: 1 },
      ],
    );
    assert.deepEqual(plans, [
      { environment: "production", plan: "free", admitted: 2, refused: 3 },
      { environment: "staging", plan: "free", admitted: 1, refused: 1 },
    ]);
  });
});

describe("what the store and other processes tell", () => {
  it("is in the figures when it has come, and no figure waits for it longer than 200 ms", async () => {
    await using house = await openAdminHouse();
    const refused = [{ account: "a_1", environment: "production", requests: 3 }];
    const status = { name: "me", version: "1", config: "h", started: 1, requestsPerSecond: 0 };
    const more = { refusalsPerSecond: 0, storeMs: null, state: "ready", why: null };
    const news = [{ name: "a", status: JSON.stringify({ ...status, ...more }), ageMs: 0 }];
    const { promise, resolve } = Promise.withResolvers<AccountBan[]>();
    const quotas = { bans: () => promise, gateways: { list: async () => news } };
    const diagnostics = { refused: async () => refused };
    const { dashboard } = dashboardOf(house, { quotas, diagnostics, name: "me" });
    // Timers of one turn end in the order of their lengths, however late.
    const before = sleep(190, "before");
    const read = dashboard.read();
    const after = sleep(210, "after");
    assert.equal(await Promise.race([before, read]), "before");
    assert.notEqual(await Promise.race([after, read]), "after");
    const told = await read;
    assert.deepEqual([told.refused, told.bans.inForce], [refused, null]);
    assert.deepEqual(
      told.gateways?.map(({ name, self }) => [name, self]),
      [["me", true]],
    );
    resolve([]);
    await eventually(() => assert.equal(dashboard.readIdle().bans.inForce, 0));
  });
});

describe("the durations", () => {
  it("are those of every environment and source together", async () => {
    await using house = await openAdminHouse();
    const metrics = createMetricsRecorder();
    const { durations } = metrics.tables;
    for (const [env, source, seconds] of [
      ["production", "backend", 0.25],
      ["production", "gateway", 0.25],
      ["staging", "backend", 1_000],
    ] as const) {
      observeDuration(durations.cell(env, source), seconds);
    }
    const told = dashboardOf(house, { metrics }).dashboard.readIdle().durations;
    const at = told.bounds.findIndex((bound) => bound >= 0.25);
    assert.deepEqual([told.counts[at], told.counts.at(-1), told.sum], [2, 1, 1_000.5]);
    assert.equal(told.counts.length, told.bounds.length + 1);
  });
});

describe("a value that is read in the background", () => {
  it("is read by one reading at a time, which takes a bounded part of the time", async () => {
    const open: ((value: number) => void)[] = [];
    const value = new BackgroundValue(
      () => new Promise<number>((resolve) => void open.push(resolve)),
    );
    assert.equal(value.refresh({ maxAgeMs: 0 }), true);
    assert.equal(value.refresh({ maxAgeMs: 0 }), false, "it is being read");
    const startMs = performance.now();
    await eventually(() => assert.ok(performance.now() - startMs > 20));
    open[0]?.(7);
    await value.reading;
    assert.equal(value.value, 7);
    assert.equal(value.refresh({ maxAgeMs: 0, pauses: 1_000 }), false, "it took 20 ms");
    assert.equal(value.refresh({ maxAgeMs: 60_000 }), false, "it is not old");
    assert.equal(value.refresh({ maxAgeMs: 0 }), true);
  });

  it("is unknown after a reading that failed", async () => {
    const answers = [() => Promise.resolve(1), () => Promise.reject(new Error("away"))];
    const value = new BackgroundValue(() => (answers.shift() ?? answers[0])?.() as never);
    value.refresh({ maxAgeMs: 0 });
    await value.reading;
    assert.equal(value.value, 1);
    value.refresh({ maxAgeMs: 0 });
    await value.reading;
    assert.equal(value.value, undefined);
  });
});
