import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import { FairBuffer } from "../../src/base/fair-buffer.ts";

/** Adds, and keeps so many by dropping. */
function fill(max: number, owners: Iterable<string>): Map<string, number[]> {
  const buffer = new FairBuffer<readonly [string, number]>();
  let i = 0;
  for (const owner of owners) {
    buffer.add(owner, [owner, i]);
    i += 1;
    if (buffer.size > max) buffer.drop();
  }
  const kept = Map.groupBy(buffer.values(), ([owner]) => owner);
  return new Map([...kept].map(([owner, all]) => [owner, all.map(([, place]) => place)]));
}

/** The same, by looking at all owners for each that is dropped. */
function searched(max: number, owners: readonly string[]): Map<string, number[]> {
  const kept = new Map<string, { readonly places: number[]; since: number }>();
  let step = 0;
  for (const [i, name] of owners.entries()) {
    const owner = kept.get(name) ?? { places: [], since: 0 };
    kept.set(name, owner);
    owner.places.push(i);
    owner.since = step++;
    if (i < max) continue;
    const largest = Math.max(...[...kept.values()].map(({ places }) => places.length));
    const [first] = [...kept]
      .filter(([, { places }]) => places.length === largest)
      .sort(([, one], [, other]) => one.since - other.since);
    const [dropped = "", from] = first ?? [];
    from?.places.shift();
    if (from !== undefined) from.since = step++;
    if (from?.places.length === 0) kept.delete(dropped);
  }
  return new Map([...kept].map(([name, { places }]) => [name, places]));
}

function* times(count: number, owner: string): Generator<string> {
  for (let i = 0; i < count; i++) yield owner;
}

describe("a memory that owners share", () => {
  it("is all of an owner's who is alone, the latest of it, oldest first", () => {
    assert.deepEqual(fill(3, times(7, "a")), new Map([["a", [4, 5, 6]]]));
    assert.deepEqual(fill(3, times(2, "a")), new Map([["a", [0, 1]]]));
  });

  it("takes from the owner who has most, so that what a small one has stays", () => {
    const kept = fill(100, [...times(3, "small"), ...times(10_000, "large")]);
    assert.deepEqual(kept.get("small"), [0, 1, 2]);
    assert.equal(kept.get("large")?.length, 97);
    assert.equal(kept.get("large")?.at(-1), 10_002);
  });

  it("takes from the one who has had as many for longest, where several have most", () => {
    assert.deepEqual([...fill(3, ["a", "b", "c", "d", "e"]).keys()].sort(), ["c", "d", "e"]);
    const [first] = fill(4, ["a", "b", "b", "a", "c"]).entries();
    assert.deepEqual(first, ["a", [0, 3]], "b had two first");
  });

  it("keeps what a plain search for the largest owner would keep, whatever comes", () => {
    const owner = fc.constantFrom("a", "a", "a", "b", "b", "c", "d", "e", "f");
    fc.assert(
      fc.property(
        fc.array(owner, { maxLength: 80 }),
        fc.integer({ min: 1, max: 12 }),
        (all, max) => {
          assert.deepEqual([...fill(max, all)].sort(), [...searched(max, all)].sort());
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it("tells its size and that of the largest owner", () => {
    const buffer = new FairBuffer<number>();
    assert.deepEqual([buffer.size, buffer.largest], [0, 0]);
    buffer.drop();
    for (const owner of ["a", "b", "a", "a"]) buffer.add(owner, 0);
    assert.deepEqual([buffer.size, buffer.largest], [4, 3]);
    buffer.drop();
    buffer.drop();
    assert.deepEqual([buffer.size, buffer.largest], [2, 1]);
    buffer.drop();
    buffer.drop();
    assert.deepEqual([buffer.size, buffer.largest, [...buffer.values()]], [0, 0, []]);
  });

  it("takes a million of ten thousand owners in a moment", (t) => {
    const buffer = new FairBuffer<number>();
    // Other work of the machine takes no processor time of this process.
    const before = process.cpuUsage();
    for (let i = 0; i < 1_000_000; i++) {
      buffer.add(`production:account-${(i * 7) % 10_007}`, i);
      if (buffer.size > 10_000) buffer.drop();
    }
    const { user, system } = process.cpuUsage(before);
    const ms = (user + system) / 1_000;
    t.annotate(`${(ms * 1_000_000) / 1_000_000} ns each`);
    assert.ok(ms < 15_000, `${ms} ms`);
  });
});
