import assert from "node:assert/strict";

const RUNS_MAX = 3;

/** The runner's object for a test: a place for figures. */
type Annotated = { annotate(text: string): PromiseLike<unknown> };

/**
 * Whether something takes as long as it should: never less, and at most `lateMs` more in one of
 * three runs. Code that is late by itself is late each time; other work of the machine makes it
 * late now and then.
 */
export async function expectDuration(
  t: Annotated,
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
    if (ms <= wantedMs + lateMs) {
      await t.annotate(`${Math.round(ms)} ms of ${wantedMs}`);
      return;
    }
  }
  assert.fail(`${tookMs.map(Math.round)} ms, at most ${wantedMs + lateMs} wanted`);
}

const LOOK_EVERY_MS = 2;

/**
 * Does work, and gives with its value for how long this process stood still meanwhile, in
 * milliseconds: a timer that should end each 2 ms was that much late, the machine being busy.
 */
export async function watchStalls<T>(
  work: () => T | Promise<T>,
): Promise<{ readonly value: T; readonly stalledMs: number }> {
  let lastMs = performance.now();
  let stalledMs = 0;
  const look = () => {
    const nowMs = performance.now();
    stalledMs += Math.max(0, nowMs - lastMs - LOOK_EVERY_MS);
    lastMs = nowMs;
  };
  const timer = setInterval(look, LOOK_EVERY_MS);
  try {
    const value = await work();
    look();
    return { value, stalledMs };
  } finally {
    clearInterval(timer);
  }
}
