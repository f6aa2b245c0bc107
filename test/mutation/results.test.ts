import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  changedSince,
  drawn,
  type FileResult,
  hashOf,
  indexesOf,
  knownOf,
  likely,
  scoreOf,
  withVerdict,
} from "./results.ts";

const NOTHING: FileResult = { hash: "h", mutants: 20, tried: "", late: 0, alive: {} };
const of = (index: number) => ({ index, told: `${index}: a -> b` });

describe("The result of a file", () => {
  it("grows by one mutant at a time, in any order, and counts none twice", () => {
    let result = NOTHING;
    for (const index of [7, 2, 0, 1, 2]) result = withVerdict(result, of(index), "noticed");
    result = withVerdict(result, of(5), "alive");
    result = withVerdict(result, of(6), "late");
    assert.equal(result.tried, "0-2,5-7");
    assert.deepEqual([...indexesOf(result.tried)], [0, 1, 2, 5, 6, 7]);
    assert.deepEqual(result.alive, { 5: "5: a -> b" });
    assert.deepEqual(scoreOf([result]), { tried: 6, noticed: 5, late: 1, percent: 500 / 6 });
  });

  it("takes a mutant back from the living when a test has noticed it", () => {
    const alive = withVerdict(NOTHING, of(3), "alive");
    assert.equal(scoreOf([alive]).noticed, 0);
    assert.deepEqual(withVerdict(alive, of(3), "noticed").alive, {});
    assert.equal(scoreOf([withVerdict(alive, of(3), "noticed")]).noticed, 1);
  });

  it("begins again where the file is another one", () => {
    const results = { rooms: {}, files: { "src/a.ts": withVerdict(NOTHING, of(3), "alive") } };
    assert.equal(knownOf(results, "src/a.ts", "h", 20).tried, "3");
    assert.equal(knownOf(results, "src/a.ts", "other", 21).tried, "");
    assert.equal(knownOf(results, "src/b.ts", "h", 20).tried, "");
  });

  it("is named as old where the text has changed or is gone", () => {
    const files = {
      "src/same.ts": { ...NOTHING, hash: hashOf("same") },
      "src/changed.ts": { ...NOTHING, hash: hashOf("before") },
      "src/gone.ts": NOTHING,
    };
    const texts: Record<string, string> = { "src/same.ts": "same", "src/changed.ts": "after" };
    assert.deepEqual(
      changedSince({ rooms: {}, files }, (file) => texts[file]),
      ["src/changed.ts", "src/gone.ts"],
    );
  });
});

describe("A sample", () => {
  const ALL = Array.from({ length: 1_000 }, (_, at) => at);

  it("is the same for the same seed, another for another, and has nothing twice", () => {
    assert.deepEqual(drawn(ALL, 50, 7), drawn(ALL, 50, 7));
    assert.notDeepEqual(drawn(ALL, 50, 7), drawn(ALL, 50, 8));
    assert.equal(new Set(drawn(ALL, 50, 7)).size, 50);
    assert.deepEqual(drawn(ALL, 50, 7), drawn(ALL, 60, 7).slice(0, 50));
  });

  it("draws from all parts alike, and all where all are asked for", () => {
    const tenths = Array.from({ length: 10 }, () => 0);
    for (let seed = 0; seed < 200; seed += 1) {
      for (const one of drawn(ALL, 10, seed)) tenths[Math.floor(one / 100)]! += 1;
    }
    for (const count of tenths) assert.ok(count > 150 && count < 250, `${tenths}`);
    assert.deepEqual(new Set(drawn(ALL, 2_000, 1)), new Set(ALL));
  });

  it("says between what the share of all lies", () => {
    // The published interval of 81 of 263 (Newcombe 1998, method 3): 0.2553 to 0.3662.
    const [low, high] = likely(81, 263);
    assert.ok(Math.abs(low - 25.53) < 0.01 && Math.abs(high - 36.62) < 0.01, `${low} ${high}`);
    const [all, whole] = likely(60, 60);
    assert.ok(all > 93 && all < 95 && Math.abs(whole - 100) < 0.01);
  });
});
