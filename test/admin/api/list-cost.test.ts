import assert from "node:assert/strict";
import { expect, it, onTestFinished, vi } from "vitest";
import { KeptList } from "../../../src/admin/api/kept-list.ts";
import { openAdminHouse } from "../admin-house.ts";

const MADE = ["a-1", "a-2", "a-3", "a-4", "a-5"];

/** A gateway with five accounts, and how many of them were read from the store for each page. */
async function countingHouse() {
  const house = await openAdminHouse();
  for (const account of MADE) {
    const body = { environment: "production", plan: "free", account };
    assert.equal((await house.ask("POST", "/api/keys", { body })).status, 201);
  }
  const peek = vi.spyOn(house.quotas, "peek");
  const readsOf = async (path: string) => {
    const reads: number[] = [];
    for (let next: string | undefined = path; next !== undefined; ) {
      peek.mockClear();
      const got: Awaited<ReturnType<typeof house.ask>> = await house.ask("GET", next);
      assert.equal(got.status, 200, got.text);
      reads.push(peek.mock.calls.length);
      next = /^<([^>]*)>; rel="next"$/.exec(String(got.fields.link))?.[1];
    }
    return reads;
  };
  return { house, readsOf, [Symbol.asyncDispose]: () => house[Symbol.asyncDispose]() };
}

it("a walk through the pages of usage reads the accounts once, and another walk reads them again", async () => {
  await using counting = await countingHouse();
  const { house, readsOf } = counting;
  expect(await readsOf("/api/usage?limit=2")).toEqual([5, 0, 0]);
  expect(await readsOf("/api/usage?limit=3")).toEqual([5, 0]);
  // A list with another filter takes the place of the one before.
  expect(await readsOf("/api/usage?limit=2&env=production")).toEqual([5, 0, 0]);
  const after = await house.ask("GET", "/api/usage?limit=2");
  const [, next = ""] = /^<([^>]*)>/.exec(String(after.fields.link)) ?? [];
  expect(await readsOf("/api/usage?plan=pro")).toEqual([0]);
  expect(await readsOf(next)).toEqual([5, 0]);
});

it("a page of counts reads the accounts of that page alone", async () => {
  await using counting = await countingHouse();
  expect(await counting.readsOf("/api/counts?limit=2")).toEqual([2, 2, 1]);
});

it("a kept list is given back when no page of it was asked for in 5 s", () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const kept = new KeptList<number>();
  kept.keep("all", [1]);
  vi.advanceTimersByTime(4_999);
  assert.deepEqual([kept.find("all"), kept.find("other")], [[1], undefined]);
  vi.advanceTimersByTime(4_999);
  assert.deepEqual(kept.find("all"), [1], "the page before kept it for longer");
  vi.advanceTimersByTime(5_000);
  assert.equal(kept.find("all"), undefined);
});

it("a list that takes the place of another is kept for 5 s of its own", () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const kept = new KeptList<number>();
  kept.keep("all", [1]);
  vi.advanceTimersByTime(4_000);
  kept.keep("pro", [2]);
  vi.advanceTimersByTime(4_000);
  assert.deepEqual([kept.find("pro"), kept.find("all")], [[2], undefined]);
});

it("a kept list is given back about a minute after it was kept, however often a page of it is asked for", () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const kept = new KeptList<number>();
  kept.keep("all", [1]);
  for (let second = 0; second < 58; second += 2) {
    vi.advanceTimersByTime(2_000);
    assert.deepEqual(kept.find("all"), [1]);
  }
  vi.advanceTimersByTime(2_000);
  kept.find("all");
  vi.advanceTimersByTime(5_000);
  assert.equal(kept.find("all"), undefined);
});

it("a list that is kept long after the start has the minute for a walk through its pages too", () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const kept = new KeptList<number>();
  vi.advanceTimersByTime(3_600_000);
  kept.keep("all", [1]);
  vi.advanceTimersByTime(4_000);
  kept.find("all");
  vi.advanceTimersByTime(4_000);
  assert.deepEqual(kept.find("all"), [1]);
});

it("a list of which a part is missing takes the place of the whole one before it", async () => {
  await using counting = await countingHouse();
  const { house, readsOf } = counting;
  expect(await readsOf("/api/usage?limit=3")).toEqual([5, 0]);
  const part = { node: "10.0.0.1:7000", buckets: [1] };
  vi.spyOn(house.quotas, "partOf").mockReturnValue(part);
  vi.spyOn(house.quotas, "peek").mockRejectedValueOnce(new Error("down"));
  expect((await house.ask("GET", "/api/usage?limit=3")).fields["x-tollgate-missing"]).toBeDefined();
  vi.mocked(house.quotas.peek).mockRejectedValueOnce(new Error("down"));
  const next = "/api/usage?limit=3&after=0+a-3";
  expect((await house.ask("GET", next)).fields["x-tollgate-missing"]).toBeDefined();
});
