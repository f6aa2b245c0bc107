import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it, vi } from "vitest";
import { GatewayAnnouncer } from "../../../src/server/process/gateway-announcer.ts";
import type { GatewayStatus } from "../../../src/telemetry/gateway-status.ts";
import { createMetricsRecorder } from "../../../src/telemetry/metrics/metrics-recorder.ts";
import type { ReadinessChecks } from "../../../src/telemetry/readiness.ts";
import { ALL_WELL } from "../../admin/admin-house.ts";
import { eventually } from "../../support/poll.ts";

const NAME = "gateway-1";

function announcing(checks: ReadinessChecks, announce?: () => Promise<void>) {
  const metrics = createMetricsRecorder();
  metrics.configured({ hash: "abc", environments: [], metrics: { routes: 1 } } as never, 0);
  const told: (GatewayStatus & { readonly as: string })[] = [];
  const events: string[] = [];
  const announcer = new GatewayAnnouncer({
    name: NAME,
    gateways: {
      announce: async (as, text) => {
        told.push({ as, ...JSON.parse(text) });
        await announce?.();
        events.push("announced");
      },
      withdraw: async (name) => void events.push(`withdrawn ${name}`),
    },
    ...{ metrics, checks: () => checks, now: () => 1_999 },
  });
  announcer.start();
  const count = (source: "gateway" | "backend", status: number, times: number) => {
    metrics.tables.requests.cell("production", "/v1/pets", "GET", status, source).value += times;
  };
  return { announcer, told, events, count };
}

it.for([
  ["ready", {}, null],
  [
    "not ready",
    { store: { ok: false, why: "away" }, keys: { ok: false } },
    "store: away; keys: fails",
  ],
  ["draining", { draining: { ok: false, why: "shutting down" } }, "draining: shutting down"],
  [
    "draining",
    { store: { ok: false, why: "away" }, draining: { ok: false, why: "ends" } },
    "store: away; draining: ends",
  ],
] as const)(
  "a gateway is announced as %s, at once, with each check that fails",
  async ([state, checks, why]) => {
    const { announcer, told } = announcing({ ...ALL_WELL, ...checks });
    const [first = assert.fail()] = told;
    assert.deepEqual([first.state, first.why], [state, why]);
    assert.deepEqual([first.name, first.as], [NAME, NAME]);
    assert.deepEqual([first.config, first.started, first.storeMs], ["abc", 1, null]);
    assert.deepEqual([first.requestsPerSecond, first.refusalsPerSecond], [0, 0]);
    assert.match(first.version, /^\d+\.\d+\.\d+/);
    await announcer.close();
  },
);

it("a gateway that ends leaves the list after what it was still announcing, and announces no more", async () => {
  let release = () => {};
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const { announcer, told, events } = announcing(ALL_WELL, () => held);
  const closed = announcer.close();
  for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(events, []);
  release();
  await closed;
  assert.deepEqual([events, told.length], [["announced", `withdrawn ${NAME}`], 1]);
});

it("a store that does not take an announcement is asked again, with how long the last one took", async () => {
  let isAway = true;
  const { announcer, told } = announcing(ALL_WELL, async () => {
    if (isAway) throw new Error("away");
  });
  await eventually(() => assert.equal(told.length, 2));
  assert.equal(told[1]?.storeMs, null);
  isAway = false;
  await eventually(() => assert.equal(typeof told.at(-1)?.storeMs, "number"));
  await announcer.close();
});

describe("with a clock that the test holds", () => {
  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval", "performance"] });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  const replied = async () => {
    for (let i = 0; i < 5; i++) await new Promise((resolve) => setImmediate(resolve));
  };

  it("rates are per second, over the last six: a burst is in them for so long and no longer", async () => {
    const { announcer, told, count } = announcing(ALL_WELL);
    await replied();
    count("gateway", 403, 30);
    count("backend", 200, 70);
    for (let i = 0; i < 8; i++) {
      vi.advanceTimersByTime(1_000);
      await replied();
    }
    assert.deepEqual(
      told.map(({ requestsPerSecond }) => requestsPerSecond),
      [0, 100, 50, 33.3, 25, 20, 16.7, 0, 0],
    );
    assert.deepEqual(
      told.map(({ refusalsPerSecond }) => refusalsPerSecond),
      [0, 30, 15, 10, 7.5, 6, 5, 0, 0],
    );
    await announcer.close();
  });

  it("an announcement has how many milliseconds the one before took, and waits for its reply", async () => {
    let reply = () => {};
    const { announcer, told } = announcing(ALL_WELL, () => {
      return new Promise((resolve) => {
        reply = resolve;
      });
    });
    vi.advanceTimersByTime(2_000);
    await replied();
    assert.equal(told.length, 1, "no second one while the first has no reply");
    vi.advanceTimersByTime(12.34);
    reply();
    await replied();
    vi.advanceTimersByTime(1_000);
    assert.deepEqual(
      told.map(({ storeMs }) => storeMs),
      [null, 2_012.3],
    );
    reply();
    await announcer.close();
  });
});
