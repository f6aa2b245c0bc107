import assert from "node:assert/strict";

/** The runner's object for a test: a place for figures. */
type Annotated = { annotate(text: string): PromiseLike<unknown> };

/**
 * Whether something takes as long as it should: never less, and at most `lateMs` more, but for how
 * long this process stood still meanwhile.
 */
export async function expectDuration(
  t: Annotated,
  { wantedMs, lateMs }: { readonly wantedMs: number; readonly lateMs: number },
  once: () => Promise<unknown>,
): Promise<void> {
  const startMs = performance.now();
  const { stalledMs } = await watchStalls(once);
  const tookMs = performance.now() - startMs;
  const told = `${Math.round(tookMs)} ms of ${wantedMs}, ${Math.round(stalledMs)} stalled`;
  await t.annotate(told);
  // Clocks of different parts are read at different instants.
  assert.ok(tookMs >= wantedMs - 20, `${told}: too soon`);
  assert.ok(tookMs <= wantedMs + lateMs + stalledMs, `${told}: more than ${lateMs} late`);
}

const LOOK_EVERY_MS = 2;
/** Timers are a little late on a quiet machine too. */
const USUALLY_LATE_MS = 3;

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
    const lateMs = nowMs - lastMs - LOOK_EVERY_MS;
    if (lateMs > USUALLY_LATE_MS) stalledMs += lateMs;
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
