import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it, vi } from "vitest";
import { PendingPeers } from "../../../../src/stores/quotas/outage/pending-peers.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["performance"] });
});
afterEach(() => {
  vi.useRealTimers();
});

const BACK_MS = 1_000_000;
const names = (...all: string[]) => new Set(all);
const settled = (all: Record<string, number>) => new Map(Object.entries(all));

describe("gateways that may owe a share", () => {
  it("are those that were seen, without this one, until each owes nothing from before the store was back", () => {
    const pending = new PendingPeers(3, names("a", "b"));
    assert.equal(pending.count, 2);
    pending.onHeartbeat(settled({ a: BACK_MS + 1 }));
    assert.equal(pending.count, 2, "the store is not back");
    pending.onStoreBack(BACK_MS);
    pending.onHeartbeat(settled({ a: BACK_MS, b: 0 }));
    assert.equal(pending.count, 2, "an instant too early");
    pending.onHeartbeat(settled({ a: BACK_MS + 1, b: 0 }));
    assert.equal(pending.count, 1);
    pending.onHeartbeat(settled({ a: 0, b: BACK_MS + 1 }));
    assert.equal(pending.count, 0);
  });

  it("are not fewer for a gateway that joined since", () => {
    const pending = new PendingPeers(2, names("a"));
    pending.onStoreBack(BACK_MS);
    pending.onHeartbeat(settled({ joined: BACK_MS + 5 }));
    assert.equal(pending.count, 1);
  });

  it("are waited for 5 s from when the store was back, however often it goes again", () => {
    const first = new PendingPeers(3, names("alive", "dead"));
    first.onStoreBack(BACK_MS);
    vi.advanceTimersByTime(3_000);
    const second = new PendingPeers(2, names("alive"), first);
    assert.equal(second.count, 2);
    vi.advanceTimersByTime(1_999);
    assert.equal(second.count, 2);
    vi.advanceTimersByTime(1);
    assert.equal(second.count, 1, "the store is not back: the one that lives is waited for");
    second.onStoreBack(BACK_MS + 6_000);
    vi.advanceTimersByTime(5_000);
    assert.equal(second.count, 0);
  });

  it("are waited for no longer where the store is back once more within these 5 s", () => {
    const first = new PendingPeers(3, names("alive", "dead"));
    first.onStoreBack(BACK_MS);
    vi.advanceTimersByTime(3_000);
    const second = new PendingPeers(2, names("alive"), first);
    second.onStoreBack(BACK_MS + 3_000);
    vi.advanceTimersByTime(1_999);
    assert.equal(second.count, 2);
    vi.advanceTimersByTime(1);
    assert.equal(second.count, 1, "the one that is dead has had its 5 s");
  });

  it("are as many as are expected where none was seen yet, each until an unknown name owes nothing", () => {
    const pending = new PendingPeers(3, undefined);
    assert.equal(pending.count, 2);
    pending.onStoreBack(BACK_MS);
    for (let i = 0; i < 2; i++) pending.onHeartbeat(settled({ a: BACK_MS + 1 }));
    assert.equal(pending.count, 1);
    pending.onHeartbeat(settled({ b: BACK_MS + 1 }));
    assert.equal(pending.count, 0);
  });

  it("are as many as share the limits where fewer were seen, each until it owes nothing or for 5 s", () => {
    const pending = new PendingPeers(4, names("a"));
    assert.equal(pending.count, 3);
    pending.onStoreBack(BACK_MS);
    pending.onHeartbeat(settled({ a: BACK_MS + 1 }));
    assert.equal(pending.count, 2, "one that was seen is none of those that were not");
    pending.onHeartbeat(settled({ a: BACK_MS + 1, b: BACK_MS + 1 }));
    assert.equal(pending.count, 1);
    vi.advanceTimersByTime(5_000);
    assert.equal(pending.count, 0);
  });
});
