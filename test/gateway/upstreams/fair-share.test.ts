import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { ConnectionShares } from "../../../src/gateway/upstreams/connection-shares.ts";

function takeAll(share: ConnectionShares, account: string): number {
  let held = 0;
  while (share.mayTake(account)) {
    share.onTaken(account);
    held += 1;
  }
  return held;
}

const waiter = (account: string) => ({ account, onFree: () => undefined });

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
    for (let i = 0; i < 7; i++) share.onTaken("one");
    assert.equal(takeAll(share, "two"), 8);
    assert.equal(takeAll(share, "one"), 1, "seven of sixteen is less than half, eight is not");
  });

  it("stay counted while very many other accounts come and go", () => {
    const share = new ConnectionShares(8);
    assert.equal(takeAll(share, "large"), 7);
    for (let i = 0; i < 100; i++) {
      share.onTaken(`small-${i}`);
      share.onReturned(`small-${i}`);
    }
    assert.equal(share.mayTake("large"), false, "seven of eight are its own");
    share.onReturned("large");
    assert.equal(takeAll(share, "large"), 1);
  });

  it("go to those who wait by accounts in turn, to none that may not have one", () => {
    const share = new ConnectionShares(8);
    takeAll(share, "large");
    share.onTaken("small");
    for (const account of ["large", "a", "large", "a", "b"]) share.wait(waiter(account));
    const order: (string | undefined)[] = [];
    for (const account of ["large", "large", "large"]) {
      share.onReturned(account);
      const next = share.next();
      order.push(next?.account);
      if (next !== undefined) share.onTaken(next.account);
    }
    assert.deepEqual(order, ["a", "b", "a"]);
    assert.equal(share.next(), undefined, "none is free");
  });

  it("go by a limit that changed, lower or higher, to client addresses too", () => {
    for (const [before, now, addresses, others] of [
      [16, 8, 7, 1],
      [8, 16, 14, 2],
    ] as const) {
      const share = new ConnectionShares(before);
      share.limitTo(now);
      let held = 0;
      for (let i = 0; i < 16; i++) held += takeAll(share, `addr:192.0.2.${i}`);
      assert.equal(held, addresses, String(now));
      assert.equal(takeAll(share, "small"), others, String(now));
    }
  });

  it("beyond a lower limit stay until they are returned", () => {
    const share = new ConnectionShares(8);
    assert.equal(takeAll(share, "large"), 7);
    share.limitTo(4);
    for (let i = 0; i < 4; i++) {
      assert.equal(share.mayTake("small"), false, `${7 - i} are held`);
      share.onReturned("large");
    }
    assert.equal(takeAll(share, "small"), 1);
  });

  it("go to client addresses as to one account, and among them as among accounts", () => {
    for (const [connections, one, others, left] of [
      [256, 196, 28, 32],
      [16, 12, 2, 2],
      [8, 6, 1, 1],
      [2, 1, 0, 1],
    ] as const) {
      const share = new ConnectionShares(connections);
      assert.equal(takeAll(share, "addr:192.0.2.1"), one, String(connections));
      assert.equal(takeAll(share, "addr:192.0.2.2"), others, String(connections));
      assert.equal(takeAll(share, "addr:192.0.2.3"), 0, String(connections));
      assert.equal(takeAll(share, "customer"), left, String(connections));
    }
    const share = new ConnectionShares(256);
    for (let i = 0; i < 1_000; i++) {
      if (share.mayTake(`addr:${i}`)) share.onTaken(`addr:${i}`);
    }
    assert.equal(takeAll(share, "customer"), 32, "however many there are");
  });

  it("go to another address that waits where the first may have none", () => {
    const share = new ConnectionShares(16);
    assert.equal(takeAll(share, "addr:1"), 12);
    for (const account of ["addr:1", "addr:2"]) share.wait(waiter(account));
    assert.equal(share.next()?.account, "addr:2");
    share.onTaken("addr:2");
    assert.equal(share.next(), undefined);
  });

  it("keep no place in the line for who gave up", () => {
    for (const account of ["a", "addr:1"]) {
      const share = new ConnectionShares(1);
      const gone = waiter(account);
      share.wait(gone);
      share.giveUp(gone);
      for (const later of ["b", account]) share.wait(waiter(later));
      assert.equal(share.next()?.account, "b", account);
    }
  });

  it("go back to those who gave them, address by address", () => {
    const share = new ConnectionShares(8);
    const all = ["addr:1", "addr:1", "addr:2", "customer"];
    for (const account of all) share.onTaken(account);
    for (const account of all) share.onReturned(account);
    assert.equal(takeAll(share, "addr:1"), 6);
  });

  it("go in turn to accounts, of which all addresses that wait are one, and to these in turn", () => {
    const share = new ConnectionShares(1);
    share.onTaken("one");
    const waiting = ["addr:1", "addr:1", "a", "addr:2", "a", "addr:3", "b", "addr:2"];
    for (const account of waiting) share.wait(waiter(account));
    const gone = waiter("addr:4");
    share.wait(gone);
    assert.equal(share.giveUp(gone), true);
    assert.equal(share.giveUp(gone), false);
    share.onReturned("one");
    const order: (string | undefined)[] = [];
    for (let next = share.next(); next !== undefined; next = share.next()) {
      order.push(next.account);
      share.onTaken(next.account);
      assert.equal(share.next(), undefined, "none is free");
      share.onReturned(next.account);
    }
    const expected = "addr:1 a b addr:2 a addr:3 addr:1 addr:2".split(" ");
    assert.deepEqual(order, expected);
  });

  it("are not kept for a request that gave up", () => {
    const share = new ConnectionShares(1);
    share.onTaken("one");
    const two = waiter("two");
    share.wait(two);
    assert.equal(share.giveUp(two), true);
    assert.equal(share.giveUp(two), false);
    share.onReturned("one");
    assert.equal(share.next(), undefined);
  });
});
