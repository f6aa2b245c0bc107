import assert from "node:assert/strict";
import { describe, it } from "vitest";
import type { BanPolicy } from "../../../../src/core/quota/bans.ts";
import {
  type MergedRequest,
  newQueue,
  takeBatch,
} from "../../../../src/stores/quotas/batch/call-queue.ts";
import { DEFAULT_BANS } from "../../../support/gateway/default-bans.ts";
import { account } from "../redis/redis-kit.ts";

describe("the next call", () => {
  const asked = (id: string, bans: BanPolicy | undefined): MergedRequest => {
    const quotaRequest = { limits: [{ window: "day", limit: 1 }], bans, requests: 1 } as const;
    return { id, accountRef: account(id), quotaRequest, cached: undefined, waiting: [] };
  };

  it("takes 256 asks; the accounts of those that are left go on gathering requests", () => {
    const queue = newQueue(0);
    for (let i = 0; i < 300; i++) {
      const merged = asked(`a${i}`, DEFAULT_BANS);
      queue.requests.push(merged);
      queue.open.set(merged.id, merged);
    }
    assert.equal(takeBatch(queue).length, 256);
    assert.deepEqual([...queue.open.values()], queue.requests);
    assert.equal(queue.requests[0]?.id, "a256");
    assert.equal(takeBatch(queue).length, 44);
    assert.deepEqual([queue.requests, queue.open.size], [[], 0]);
  });

  it("has one ban policy: asks with another wait, and strikes ride along behind the asks", () => {
    const queue = newQueue(0);
    const other = { ...DEFAULT_BANS, strikes: DEFAULT_BANS.strikes + 1 };
    queue.requests.push(asked("a", DEFAULT_BANS), asked("b", other));
    queue.strikes.push(asked("s", { ...DEFAULT_BANS }), asked("t", other));
    const ids = () => takeBatch(queue).map(({ id }) => id);
    assert.deepEqual(ids(), ["a", "s"]);
    assert.deepEqual(ids(), ["b", "t"]);
  });

  it("takes the strikes of its policy from between those of another, which keep their order", () => {
    const queue = newQueue(0);
    for (const id of ["s", "x", "t", "y", "u"])
      queue.strikes.push(asked(id, id < "v" ? DEFAULT_BANS : undefined));
    const ids = (room?: number) => takeBatch(queue, room).map(({ id }) => id);
    assert.deepEqual([ids(2), ids(), ids()], [["s", "t"], ["x", "y"], ["u"]]);
  });

  it("takes no more than there is room for, and nothing under another policy than that of the round", () => {
    const queue = newQueue(0);
    const other = { ...DEFAULT_BANS, strikes: DEFAULT_BANS.strikes + 1 };
    queue.requests.push(asked("a", other), asked("b", other));
    const first = asked("z", DEFAULT_BANS).quotaRequest;
    assert.deepEqual(takeBatch(queue, 5, first), []);
    assert.deepEqual(
      takeBatch(queue, 1, asked("z", { ...other }).quotaRequest).map(({ id }) => id),
      ["a"],
    );
    assert.deepEqual(
      queue.requests.map(({ id }) => id),
      ["b"],
    );
  });
});
