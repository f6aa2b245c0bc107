import assert from "node:assert/strict";
import { test } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";

const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /narrow:
    get: { operationId: narrow, x-limits: { day: 2 }, responses: {} }
`;

test("the events of an operation's window name the operation", async () => {
  // The test moves this clock, a second for each request, so that refusals are strikes.
  let nowMs = Date.UTC(2026, 5, 1, 12);
  await using house = await startTestGateway({
    now: () => nowMs,
    files: { "api.yaml": API },
    api: "./api.yaml",
    config: {
      plans: { free: { minute: 60 } },
      bans: { strikes: 1, grace: "10ms", within: "1m", duration: "1h" },
    },
    keys: { [KEY]: { account: "acme", plan: "free" } },
  });
  const told = (kind: string) =>
    house.said.filter((line) => line.msg === "event" && line.kind === kind);
  for (let i = 0; i < 5; i++) {
    await house.ask(KEY, "/v1/narrow");
    nowMs += 1_000;
  }
  await eventually(() => assert.equal(told("ban").length, 1));
  const windows = [...told("quota"), ...told("ban")].map(({ window }) => window);
  assert.deepEqual(windows, ["narrow.day", "narrow.day"]);
});
