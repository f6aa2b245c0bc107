import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { ConnectionShares } from "../../../src/gateway/upstreams/connection-shares.ts";

function takeAll(share: ConnectionShares<unknown>, account: string): number {
  let held = 0;
  while (share.mayTake(account)) {
    share.taken(account);
    held += 1;
  }
  return held;
}

const waiter = (account: string) => ({ account, onFree: () => undefined, fresh: false });

describe("the connections to an upstream", () => {
  it("go to one account until an eighth is left, which stays free for the others", () => {
    for (const [connections, most] of [
      [256, 224],
      [16, 14],
      [8, 7],
      [3, 2],
      [2, 1],
      [1, 1],
    ] as const) {
      const share = new ConnectionShares(connections);
      assert.equal(takeAll(share, "large"), most, String(connections));
      assert.equal(takeAll(share, "small"), connections - most, String(connections));
    }
  });

  it("go to an account that holds less than half of them whatever is left", () => {
    const share = new ConnectionShares(16);
    for (let i = 0; i < 7; i++) share.taken("one");
    assert.equal(takeAll(share, "two"), 8);
    assert.equal(takeAll(share, "one"), 1, "seven of sixteen is less than half, eight is not");
  });

  it("go to those who wait by accounts in turn, to none that may not have one", () => {
    const share = new ConnectionShares(8);
    takeAll(share, "large");
    share.taken("small");
    for (const account of ["large", "a", "large", "a", "b"]) share.wait(waiter(account));
    const order: (string | undefined)[] = [];
    for (const account of ["large", "large", "large"]) {
      share.returned(account);
      const next = share.next();
      order.push(next?.account);
      if (next !== undefined) share.taken(next.account);
    }
    assert.deepEqual(order, ["a", "b", "a"]);
    assert.equal(share.next(), undefined, "none is free");
  });

  it("are not kept for a request that gave up", () => {
    const share = new ConnectionShares(1);
    share.taken("one");
    const two = waiter("two");
    share.wait(two);
    assert.equal(share.giveUp(two), true);
    assert.equal(share.giveUp(two), false);
    share.returned("one");
    assert.equal(share.next(), undefined);
  });
});
