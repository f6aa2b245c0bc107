import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { eventually } from "../../support/poll.ts";
import { audited, openAudited } from "../audit-kit.ts";

/** A noon that does not move: no window ends in the middle of a test. */
const NOON = Date.UTC(2026, 5, 1, 12);
const TODAY = "2026-06-01";
const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /reports: { get: { operationId: list, x-limits: { day: 50 }, responses: {} } }
  /others: { get: { operationId: others, responses: {} } }
`;

async function openServed(path: string) {
  const house = await openAudited({
    now: () => NOON,
    api: "./api.yaml",
    files: { "api.yaml": API },
    config: { history: "400d", bans: "off", plans: { free: { minute: 60 } } },
  });
  const { key } = await house.issue();
  for (let i = 0; i < 3; i++) await (await house.ask(key, path)).text();
  await eventually(() => assert.equal(house.lines.length, 3));
  return house;
}

describe("audit of the day that runs", () => {
  it("compares the windows of that length of operations, though no plan has one", async () => {
    await using house = await openServed("/v1/reports");
    const args = ["--day", TODAY];
    const right = await audited(house, { nowMs: NOON, args });
    assert.deepEqual([right.status, right.told.matched, right.told.drift], [0, 1, []]);
    const wrong = await audited(house, { nowMs: NOON, args, leaveOut: 1 });
    assert.deepEqual(
      wrong.told.drift.map(({ window, drift }) => [window, drift]),
      [["list.day", 1]],
    );
    assert.equal(wrong.status, 1);
  });

  it.each([
    ["--day", TODAY, /it is not over, and no window of its length counts/],
    ["--month", "2026-06", /it is not over, and no window of its length counts/],
    ["--day", "2026-06-02", /it has not begun/],
    ["--month", "2027-01", /it has not begun/],
    ["--month", "2026-05", /^the logs (begin after it: their first line|have no line)/],
  ])("says why nothing of %s %s is compared", async (option, period, why) => {
    await using house = await openServed("/v1/others");
    const edit = () => [];
    const { status, told } = await audited(house, { nowMs: NOON, args: [option, period], edit });
    assert.deepEqual([status, told.matched, told.drift], [1, 0, []]);
    assert.deepEqual(
      told.notCompared.map(({ window }) => window),
      [period],
    );
    assert.match(told.notCompared[0]?.why ?? "", why);
  });
});
