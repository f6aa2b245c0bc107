import assert from "node:assert/strict";
import { it } from "vitest";
import { MessageLog } from "../../../../../src/stores/quotas/redis/changes/message-log.ts";
import type { Link } from "../../../../../src/stores/redis/link.ts";

/** A log whose store has these messages, text by number. */
function logOf(stored: Readonly<Record<string, string>>): MessageLog {
  const link: Pick<Link, "send"> = { send: async () => stored };
  return new MessageLog(link as Link, "log", () => {});
}

it("of more messages than are remembered, those that were heard of last are known", async () => {
  const log = logOf({ 1: "first a", 2: "second b" });
  log.know("first");
  log.know("second");
  for (let i = 0; i < 9_998; i++) log.know(`other ${i}`);
  const logged = (await log.read(2)) ?? [];
  assert.deepEqual(log.missed(logged), []);
  log.know("first");
  log.know("one more");
  assert.deepEqual(log.missed(logged), [["b"]]);
});
