import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { Incidents } from "../../../src/cli/logs/incidents.ts";
import { DAY_MS } from "../../../src/core/quota/days.ts";

const NOON = Date.UTC(2026, 10, 2, 12);
const ACME = { environment: "production", account: "acme" };

describe("an outage over midnight", () => {
  it("gives units to the next day only by an outage of the account's own bucket", () => {
    const day = Math.floor(NOON / DAY_MS);
    const isReturnDay = (more: object, on = day) => {
      const incidents = new Incidents();
      incidents.event({ msg: "event", kind: "store_back", gateway: "a", time: NOON, ...more });
      return incidents.isReturnDay({ ...ACME, day: on });
    };
    const own = [{}, { buckets: "13" }, { buckets: "2,13" }].map((each) => isReturnDay(each));
    assert.deepEqual(own, [true, true, true]);
    assert.deepEqual([isReturnDay({ buckets: "2" }), isReturnDay({}, day + 1)], [false, false]);
  });

  it("gives units to the next day only by an outage that began before the midnight between them", () => {
    const day = Math.floor(NOON / DAY_MS);
    const isReturnDay = (fromMs: number) => {
      const incidents = new Incidents();
      const of = { msg: "event", gateway: "a" };
      incidents.event({ ...of, kind: "store_away", time: fromMs });
      incidents.event({ ...of, kind: "store_back", time: NOON });
      return incidents.isReturnDay({ ...ACME, day });
    };
    const late = day * DAY_MS + 10_000;
    assert.deepEqual([late - 1, late, NOON - 1].map(isReturnDay), [true, false, false]);
  });
});
