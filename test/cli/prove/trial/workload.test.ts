import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  apiText,
  configText,
  METER,
  OPERATIONS,
  PLANS,
  type PlantedFault,
} from "../../../../src/cli/prove/trial/workload.ts";

const SETTINGS = { number: 1, gateways: 2, store: "redis://127.0.0.1:1", prefix: "p" };

/** A hundred requests a second reach one of the two of each plan, and bring clients to the other. */
const LIMITS = {
  brisk: [
    ["second", 10],
    ["minute", 350],
  ],
  steady: [
    ["minute", 20],
    ["hour", 5_000],
  ],
  polite: [
    ["second", 3],
    ["hour", 100_000],
  ],
};

/** The configuration of a gateway of a proof, and the operations of its description. */
function written(fault: PlantedFault | undefined, gateways = 2) {
  const upstream = "http://127.0.0.1:2";
  const config = JSON.parse(configText({ ...SETTINGS, gateways, upstream, fault }));
  const { paths } = JSON.parse(apiText({ fault }));
  return { config, paths };
}

describe("a gateway of a proof", () => {
  it("has the plans, the operations and the meter that are judged", () => {
    const { config, paths } = written(undefined);
    for (const [name, windows] of Object.entries(PLANS)) {
      const { day, meters, ...limits } = config.plans[name];
      const promised = windows.map(({ window, limit }) => [window, limit]);
      assert.deepEqual(limits, Object.fromEntries(promised), name);
      assert.deepEqual(promised, LIMITS[name as keyof typeof LIMITS]);
      assert.ok(day > 1e8 && meters[METER.name].day > 1e8, "a day has room for all of it");
    }
    const costs = Object.entries(OPERATIONS).map(([name, { cost }]) => [name, cost]);
    assert.deepEqual(Object.fromEntries(costs), { pets: 1, dear: 4, few: 1 });
    const told = Object.entries(paths as Record<string, { get: Record<string, unknown> }>);
    assert.deepEqual(
      told.map(([path, { get }]) => [path.slice(1), get["x-cost"]]),
      costs,
    );
    assert.deepEqual(paths["/few"].get["x-limits"], { second: 4 });
    const { hold, max, field } = METER;
    assert.deepEqual([hold, max], [50, 120], "what is used may be more or less than is held");
    assert.deepEqual(paths["/dear"].get["x-meters"], {
      [METER.name]: { hold, max, used: [`header ${field}`] },
    });
    assert.deepEqual([config.storePrefix, config.expectedGateways], ["p", 2]);
    const ban = { strikes: 4, within: "10s", grace: "500ms", duration: "1s", factor: 1, max: "1s" };
    assert.deepEqual(config.bans, ban, "one begins and ends within a proof");
    assert.deepEqual([config.history, config.storeTimeout], ["400d", undefined]);
    assert.deepEqual(config.environments.proof, {
      ...{ listen: "127.0.0.1:0", basePath: "/v1", keyTag: "proof", api: "./api-1.json" },
      upstreams: ["http://127.0.0.1:2"],
    });
    const { admin, stateFile } = config;
    assert.deepEqual([admin, stateFile], [{ listen: "127.0.0.1:0" }, "./state-1.json"]);
  });

  it("with a limit at fault counts to twice of it by itself, and a single one admits a unit more", () => {
    const several = written("limit").config;
    assert.equal(several.plans.steady.minute, 40);
    assert.equal(several.storePrefix, "p-alone");
    const single = written("limit", 1).config;
    assert.deepEqual([single.plans.steady.minute, single.storePrefix], [21, "p"]);
  });

  it("has each other fault in one place, and a store that may be slow unless late answers are the fault", () => {
    const sound = written(undefined);
    for (const fault of ["retry-after", "forward", "late", "cost", "history", "settle"] as const) {
      const { config, paths } = written(fault);
      assert.deepEqual(config.plans, sound.config.plans, fault);
      assert.equal(config.history, fault === "history" ? "off" : "400d");
      assert.equal(config.storeTimeout, fault === "late" ? undefined : "1s", fault);
      assert.equal(paths["/dear"].get["x-cost"], fault === "cost" ? 1 : OPERATIONS.dear.cost);
      const [used] = paths["/dear"].get["x-meters"][METER.name].used;
      assert.equal(used === `header ${METER.field}`, fault !== "settle", fault);
    }
    assert.equal(sound.config.limits.drain, "1s", "its end is no part of the proof");
    const alone = { ...SETTINGS, store: undefined, upstream: "http://127.0.0.1:2" };
    const { store, storeTimeout } = JSON.parse(configText({ ...alone, fault: "cost" }));
    assert.deepEqual([store, storeTimeout], ["memory", undefined]);
  });
});
