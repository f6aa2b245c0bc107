import assert from "node:assert/strict";
import { it } from "vitest";
import { inMotionFailure, silentFailure } from "../../../../src/stores/redis/store-failure.ts";
import { eventually } from "../../../support/poll.ts";
import { account } from "../redis/redis-kit.ts";
import { called, openBatch, quotaRequest, spent } from "./queue-kit.ts";

it("a late decision is that of its own request in a call of which another one has none to come", async () => {
  using house = openBatch();
  const { batch, calls, gate, uncertain } = house;
  const answers = [
    batch.charge(account("a1"), { ...quotaRequest, cost: 2 }),
    batch.charge(account("b1"), { ...quotaRequest, cost: 3 }),
  ];
  await called(house, 1);
  assert.deepEqual(calls[0]?.names, ["a1", "b1"]);
  const later = Promise.resolve({ ...spent(), granted: 1 });
  calls[0]?.answerEach([{ failure: inMotionFailure() }, { failure: silentFailure(later), later }]);
  assert.deepEqual(await Promise.all(answers), [{ unavailable: true }, { unavailable: true }]);
  await eventually(() => assert.deepEqual(gate.released, [3]));
  assert.deepEqual(uncertain, []);
});
