import assert from "node:assert/strict";
import { it } from "vitest";
import { deprecationReport } from "../../src/config/queries/deprecations.ts";

const DAY_MS = 86_400_000;
const NOW_MS = Date.UTC(2030, 0, 10, 12);

function report(sunsets: Readonly<Record<string, number | undefined>>, calls: readonly object[]) {
  const operations = Object.entries(sunsets).map(([template, sunsetMs]) => {
    return { method: "GET", template, lifecycle: { deprecated: true, sunsetMs } };
  });
  const environment = { name: "production", routes: { operations }, services: [] };
  const config = { environments: [environment] };
  return deprecationReport(config as never, calls as never, NOW_MS);
}

it("deprecated operations come by their sunset, those without one last, with the days that are begun", () => {
  const sunsets = {
    ...{ "/none": undefined, "/later": NOW_MS + DAY_MS + 1_999, "/soon": NOW_MS + 1 },
    ...{ "/gone": NOW_MS - 3 * DAY_MS, "/nor": undefined },
  };
  const told = report(sunsets, []).map(({ route, sunset, daysLeft }) => [route, sunset, daysLeft]);
  const nowS = NOW_MS / 1_000;
  assert.deepEqual(told, [
    ["/gone", nowS - 3 * 86_400, 0],
    ["/soon", nowS, 1],
    ["/later", nowS + 86_401, 2],
    ["/none", null, null],
    ["/nor", null, null],
  ]);
});

it("calls of an account are added up, and the latest caller comes first", () => {
  const call = { environment: "production", method: "GET", route: "/a" };
  const [told] = report({ "/a": undefined }, [
    { ...call, account: "a_1", requests: 2, last: 70 },
    { ...call, account: "a_2", requests: 1, last: 80 },
    { ...call, account: "a_1", requests: 3, last: 60 },
    { ...call, environment: "staging", account: "a_3", requests: 1, last: 90 },
    { ...call, method: "PUT", account: "a_3", requests: 1, last: 90 },
    { ...call, route: "/b", account: "a_3", requests: 1, last: 90 },
  ]);
  assert.deepEqual(told?.accounts, [
    { account: "a_2", requests: 1, last: 80 },
    { account: "a_1", requests: 5, last: 70 },
  ]);
});
