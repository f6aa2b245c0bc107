import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { type GatewayStatus, gatewayReports, mayRun } from "../../src/telemetry/gateway-status.ts";
import { each } from "../support/each.ts";

const STATUS: GatewayStatus = {
  name: "a",
  version: "1.0.0",
  config: "aaaa",
  started: 1_700_000_000,
  requestsPerSecond: 12.5,
  refusalsPerSecond: 2,
  storeMs: 0.4,
  state: "ready",
  why: null,
};

/** The reports of these gateways, each with the differences from STATUS and the age of its message. */
function reports(...gateways: readonly (Partial<GatewayStatus> & { ageMs?: number })[]) {
  const news = gateways.map(({ ageMs = 0, ...own }) => {
    return { status: JSON.stringify({ ...STATUS, ...own }), ageMs };
  });
  return gatewayReports(news, "a");
}

describe("the list of gateways", () => {
  it("is by name, says which one answers, and repeats what each told", () => {
    const [a, b] = reports({ name: "b", state: "draining", why: "draining: x" }, {});
    assert.deepEqual(a, { ...STATUS, age: 0, self: true, differs: [] });
    assert.deepEqual([b?.name, b?.self, b?.state, b?.why], ["b", false, "draining", "draining: x"]);
  });

  it("calls one silent after 3 s without news, not before, and gives it no rates", () => {
    const [a, b, c] = reports(
      { ageMs: 3_000 },
      { name: "b", ageMs: 3_001, state: "not ready", why: "store: away" },
      { name: "c", ageMs: 4_999 },
    );
    assert.deepEqual([b?.why, c?.age], [null, 4], "what it told last may be over");
    assert.deepEqual([a?.state, a?.age], ["ready", 3]);
    assert.deepEqual([b?.state, b?.age], ["silent", 3]);
    assert.deepEqual([b?.requestsPerSecond, b?.refusalsPerSecond, b?.storeMs], [0, 0, null]);
  });

  it("marks what is not as in most of those that speak", () => {
    const odd = { config: "bbbb", version: "2.0.0" };
    assert.deepEqual(
      reports({}, { name: "b" }, { name: "c", ...odd }).map((one) => one.differs),
      [[], [], ["version", "config"]],
    );
    // The dead have no vote, but are marked all the same.
    assert.deepEqual(
      reports({}, { name: "b", ...odd, ageMs: 4_000 }, { name: "c", ...odd, ageMs: 4_000 }).map(
        (one) => one.differs,
      ),
      [[], ["version", "config"], ["version", "config"]],
    );
  });

  it("lets one speak whose news are 3 s old", () => {
    const odd = { config: "bbbb", ageMs: 3_000 };
    const all = reports({}, { name: "b", ...odd }, { name: "c", ...odd });
    assert.deepEqual(
      all.map(({ differs }) => differs),
      [["config"], [], []],
    );
  });

  it("takes one for ended 5 s after its news, later than it is silent", () => {
    assert.deepEqual([0, 3_001, 4_999, 5_000].map(mayRun), [true, true, true, false]);
  });

  it("marks both of two that differ, as neither is known to be right", () => {
    assert.deepEqual(
      reports({}, { name: "b", config: "bbbb" }).map(({ differs }) => differs),
      [["config"], ["config"]],
    );
  });

  it("leaves out messages that are none", () => {
    const bad = ["", "{", "null", "[]", '"a"', "{}"];
    const needed = ["name", "version", "config", "started", "state"] as const;
    const rates = ["requestsPerSecond", "refusalsPerSecond"] as const;
    const odd = each([...needed, ...rates]).flatMap((name) => {
      return [{}, null].map((value) => JSON.stringify({ ...STATUS, [name]: value }));
    });
    odd.push(JSON.stringify({ ...STATUS, state: "asleep" }));
    odd.push(JSON.stringify(STATUS).replace(`${STATUS.started}`, "1e999"));
    const news = [...bad, ...odd].map((status) => ({ status, ageMs: 0 }));
    assert.deepEqual(gatewayReports(news, "a"), []);
    const [kept] = gatewayReports(
      [{ status: JSON.stringify({ ...STATUS, storeMs: "x", why: 5, more: 1 }), ageMs: 0 }],
      "a",
    );
    assert.deepEqual([kept?.storeMs, kept?.why, "more" in (kept ?? {})], [null, null, false]);
  });
});
