import assert from "node:assert/strict";
import { it } from "vitest";
import { publicReason } from "../../../src/stores/keys/key-store.ts";
import { StoreFailure } from "../../../src/stores/redis/store-failure.ts";

it("who asks for a change of keys is told why Redis did not take it, and nothing of any other error", () => {
  const failure = new StoreFailure("late", "Redis: no answer in 2000 ms", "unknown");
  assert.equal(publicReason(failure), "Redis: no answer in 2000 ms");
  assert.equal(publicReason(new Error('Unexpected token in {"digest":"4f"}')), undefined);
  assert.equal(publicReason("of no kind"), undefined);
});
