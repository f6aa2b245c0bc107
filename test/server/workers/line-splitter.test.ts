import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { LineSplitter } from "../../../src/server/workers/line-splitter.ts";

const MEBIBYTE = 1024 ** 2;

/** The lines of these pieces that are passed on, and the number of those that were lost. */
function split(...pieces: readonly string[]) {
  const passed: string[] = [];
  const lines = new LineSplitter((text) => passed.push(text));
  for (const piece of pieces) lines.take(Buffer.from(piece));
  lines.end();
  return { passed, lost: lines.lost };
}

describe("the lines of a process", () => {
  it("are passed on whole, however they were cut, and many at once", () => {
    assert.deepEqual(split("a", "b\nc\nd", "\n"), { passed: ["ab\nc\n", "d\n"], lost: 0 });
    assert.deepEqual(split("a", "b", "c\n"), { passed: ["abc\n"], lost: 0 });
    assert.deepEqual(split("\n", "a\n"), { passed: ["\n", "a\n"], lost: 0 });
  });

  it("are lost where the process ended within one, and told", () => {
    assert.deepEqual(split("a\nb"), { passed: ["a\n"], lost: 1 });
  });

  it("of up to 1 MiB are passed on, and a longer one is dropped whole, told once", () => {
    const long = "x".repeat(MEBIBYTE);
    assert.deepEqual(split(long, "\nb\n"), { passed: [`${long}\nb\n`], lost: 0 });
    const dropped = { passed: ["b\nc\n", "d\n"], lost: 1 };
    assert.deepEqual(split(`${long}x`, "rest", "of it\nb\nc\n", "d\n"), dropped);
    assert.deepEqual(split(`${long}x`, "rest\n", "b\n"), { passed: ["b\n"], lost: 1 });
  });
});
