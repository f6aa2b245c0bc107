import assert from "node:assert/strict";
import type { TestContext } from "node:test";

const RUNS_MAX = 3;

/**
 * Whether something takes as long as it should: never less, and at most `lateMs` more in one of three
 * runs. What is late by itself is late each time; what else the machine does makes it late now and then.
 */
export async function inTime(
  t: TestContext,
  { wantedMs, lateMs }: { readonly wantedMs: number; readonly lateMs: number },
  once: () => Promise<unknown>,
): Promise<void> {
  const tookMs: number[] = [];
  while (tookMs.length < RUNS_MAX) {
    const startMs = performance.now();
    await once();
    const ms = performance.now() - startMs;
    // Clocks of different parts are read at different instants.
    assert.ok(ms >= wantedMs - 20, `${ms} ms, too soon for ${wantedMs}`);
    tookMs.push(ms);
    if (ms <= wantedMs + lateMs) return t.diagnostic(`${Math.round(ms)} ms of ${wantedMs}`);
  }
  assert.fail(`${tookMs.map(Math.round)} ms, at most ${wantedMs + lateMs} wanted`);
}
