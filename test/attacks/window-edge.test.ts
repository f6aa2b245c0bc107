import assert from "node:assert/strict";
import { test } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { openClient, rateLimitFieldsOf } from "../support/wire/client.ts";

const LIMIT = 5;
const MINUTE_MS = 60_000;
const EDGE_MS = Date.UTC(2030, 4, 5, 12, 1);

test("an aligned minute admits its limit; around an edge at most twice that pass, in any 60 s", async () => {
  let nowMs = EDGE_MS - 2;
  await using house = await startTestGateway({
    now: () => nowMs,
    config: { plans: { free: { minute: LIMIT }, enterprise: "custom" }, bans: "off" },
  });
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  const admittedAt: number[] = [];
  const hammer = async () => {
    for (let i = 0; i < LIMIT + 2; i++) {
      const answer = await client.ask({ key });
      if (answer.status === 200) admittedAt.push(nowMs);
      const next = (Math.floor(nowMs / MINUTE_MS) + 1) * MINUTE_MS;
      assert.equal(
        rateLimitFieldsOf(answer).reset,
        next / 1_000,
        "the edge, whoever asks and when",
      );
    }
  };
  for (const at of [
    EDGE_MS - 2,
    EDGE_MS - 1,
    EDGE_MS,
    EDGE_MS + 1,
    EDGE_MS + MINUTE_MS - 1,
    EDGE_MS + MINUTE_MS,
  ]) {
    nowMs = at;
    await hammer();
  }
  const inWindow = (fromMs: number) =>
    admittedAt.filter((at) => at >= fromMs && at < fromMs + MINUTE_MS).length;
  for (const from of [EDGE_MS - MINUTE_MS, EDGE_MS, EDGE_MS + MINUTE_MS])
    assert.equal(inWindow(from), LIMIT);
  for (const from of admittedAt) assert.ok(inWindow(from) <= 2 * LIMIT);
  assert.equal(inWindow(EDGE_MS - 2), 2 * LIMIT, "the documented worst case of aligned windows");
});

test("a clock that goes back over the edge opens no window that was spent", async () => {
  let nowMs = EDGE_MS - 1;
  await using house = await startTestGateway({
    now: () => nowMs,
    config: { plans: { free: { minute: LIMIT }, enterprise: "custom" }, bans: "off" },
  });
  const { key } = await house.issue();
  await using client = await openClient(house.port);
  const spendAll = async () => {
    let admitted = 0;
    for (let i = 0; i < LIMIT + 1; i++)
      if ((await client.ask({ key })).status === 200) admitted += 1;
    return admitted;
  };
  assert.equal(await spendAll(), LIMIT);
  nowMs = EDGE_MS;
  assert.equal(await spendAll(), LIMIT);
  for (const backMs of [1, 1_000, 30_000]) {
    nowMs = EDGE_MS - backMs;
    assert.equal(await spendAll(), 0, `${backMs} ms back`);
  }
  nowMs = EDGE_MS + MINUTE_MS;
  assert.equal(await spendAll(), LIMIT);
});
