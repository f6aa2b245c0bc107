import assert from "node:assert/strict";
import { it } from "vitest";
import type { UsageReport } from "../../../src/core/keys/usage-reports.ts";
import { eventually } from "../../support/poll.ts";
import { startRedis } from "../../support/redis/redis.ts";
import { awayFromMinuteEdge } from "../../support/wire/client.ts";
import { openAudited } from "../audit-kit.ts";
import { jsonOf, runVerb } from "../kit.ts";

const EACH = { minute: 91, hour: 92, day: 93, week: 94, month: 95, year: 96 };
const STANDING = "/v1/_limits";
const METERS = ["tokens", "rows"].map(
  (name) => `${name}: { hold: 1, max: 9, used: [header x-${name}] }`,
);
const OPERATIONS = ["alpha", "zeta"].map((id) => {
  const own = `x-limits: { year: 9, minute: 9, day: 9 }, x-meters: { ${METERS.join(", ")} }`;
  return `  /${id}: { get: { operationId: ${id}, ${own}, responses: {} } }`;
});
const API = `openapi: 3.1.0\ninfo: { title: t, version: "1" }\npaths:\n${OPERATIONS.join("\n")}\n`;

/** From the shortest window to the longest: that of the account, of its key, of operations, of meters. */
const ORDER = `second
minute key.minute alpha.minute zeta.minute tokens.minute rows.minute
hour tokens.hour rows.hour
day key.day alpha.day zeta.day tokens.day rows.day
week tokens.week rows.week
month tokens.month rows.month
year key.year alpha.year zeta.year tokens.year rows.year`.split(/\s/);

/** The members of a report, and the names of its windows. */
function shapeOf(report: UsageReport | undefined) {
  assert.ok(report);
  const { windows } = report;
  assert.equal(windows.find(({ window }) => window === "year")?.used, 2);
  const members = [...new Set(windows.map((one) => Object.keys(one).join()))];
  return [Object.keys(report), members, windows.map(({ window }) => window)];
}

/** Checks the usage of an account with all kinds of windows, by each way to read it. */
async function check(store: string, operations: readonly string[]): Promise<void> {
  await using house = await openAudited({
    config: {
      store,
      plans: { free: { ...EACH, observe: { day: 50 }, meters: { tokens: EACH, rows: EACH } } },
    },
    environment: { api: "./api.yaml", standing: STANDING },
    files: { "api.yaml": API },
  });
  const caps = { year: 80, minute: 81, day: 82 };
  const limits = { month: 70, second: 71, "tokens.day": 72 };
  const { key, account } = await house.issue({ account: "all", caps, limits });
  // A window of an operation that has counted nothing is not told.
  await awayFromMinuteEdge();
  for (const id of operations) {
    assert.equal((await house.ask(key, `/v1/${id}`)).status, 200);
  }
  const verb = async (...args: string[]) =>
    jsonOf<unknown>(await runVerb(["usage", ...args, "--json", "--config", house.file]));
  const read = async (path: string) => (await house.admin(path)).json();
  const members = ["account", "environment", "plan", "windows", "observed", "strikes", "ban"];
  const window = ["window,limit,used,remaining,reset"];
  const ofAccount = [members, window, ORDER.filter((name) => !name.startsWith("key."))];
  await eventually(async () => {
    const all = [await read(`/api/usage/${account}`), await verb(account)];
    for (const list of [await read("/api/usage"), await verb()]) all.push((list as unknown[])[0]);
    for (const one of all) assert.deepEqual(shapeOf(one as UsageReport), ofAccount);
    const own = await (await house.ask(key, STANDING)).json();
    assert.deepEqual(shapeOf(own as UsageReport), [[...members, "deprecated"], window, ORDER]);
  });
}

it("usage with all kinds of windows has one shape and one order, whatever is asked and whichever store has it", async () => {
  const redis = await startRedis();
  await check("memory", ["zeta", "alpha"]);
  await check(redis.url, ["alpha", "zeta"]);
  await redis.close();
});
