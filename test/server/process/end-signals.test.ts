import assert from "node:assert/strict";
import { describe, it } from "vitest";
import {
  type ShutdownCause,
  ShutdownSignals,
} from "../../../src/server/process/process-context.ts";

type Told = readonly [cause: ShutdownCause, atMs: number];

function judged(underNpm: boolean, ...told: readonly Told[]) {
  const signals = new ShutdownSignals(underNpm);
  return told.map(([cause, atMs]) => signals.judge(cause, atMs));
}

describe("what ends a gateway", () => {
  it("is drained by the first, whichever it is, and ended at once by a second", () => {
    for (const first of ["SIGTERM", "SIGINT"] as const) {
      for (const second of ["SIGTERM", "SIGINT"] as const) {
        assert.deepEqual(judged(false, [first, 0], [second, 100]), ["drain", "end"]);
        assert.deepEqual(judged(true, [first, 0], [second, 500]), ["drain", "end"]);
      }
    }
  });

  it("is one signal where the same one comes twice within a moment, longer under npm", () => {
    assert.deepEqual(judged(false, ["SIGINT", 7], ["SIGINT", 106]), ["drain", "same"]);
    assert.deepEqual(judged(true, ["SIGINT", 7], ["SIGINT", 506]), ["drain", "same"]);
    assert.deepEqual(judged(true, ["SIGINT", 0], ["SIGTERM", 1]), ["drain", "end"]);
  });

  it("is never a second signal when the parent is gone, however late that is seen", () => {
    assert.deepEqual(judged(true, ["SIGTERM", 0], ["parent gone", 9_000]), ["drain", "same"]);
    assert.deepEqual(judged(true, ["parent gone", 0]), ["drain"]);
  });

  it("ends at once by the first signal that a person sends after the parent was gone", () => {
    const told = judged(true, ["parent gone", 0], ["SIGTERM", 100], ["SIGTERM", 900]);
    assert.deepEqual(told, ["drain", "same", "end"], "the signal that ended the parent, seen late");
  });
});
