import assert from "node:assert/strict";
import { it, onTestFinished } from "vitest";
import { startRedis } from "./redis.ts";

it("a server whose port another one has is not taken for that one", async () => {
  const one = await startRedis();
  onTestFinished(() => one.close());
  await assert.rejects(startRedis({ port: one.port }), /already in use/);
});
