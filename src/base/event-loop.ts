import { setImmediate as turn } from "node:timers/promises";

/**
 * The longest time in milliseconds that one slice of long work delays requests, and how often it
 * checks.
 */
const SLICE_MS = 1;
const LOOK_EVERY = 16;

/** Resolves when the event loop has had a turn: sockets are read and written in between. */
export async function nextTurn(): Promise<void> {
  await turn();
}

/**
 * Calls back after a full poll phase. Timers run before sockets are read, so bytes that arrived
 * while the event loop stood still are read before a timer judges that they are late.
 */
export function afterPoll(judge: () => void): void {
  setImmediate(() => setImmediate(judge));
}

/**
 * Calls back when `ms` have passed, after a full poll phase. Clearing the timer cancels the call,
 * except during the poll phase.
 */
export function setTimeoutAfterPoll(ms: number, late: () => void): NodeJS.Timeout {
  return setTimeout(() => afterPoll(late), ms);
}

/**
 * Visits each of many items in slices of a millisecond, with a turn of the event loop after each. A
 * visit that returns false ends the loop. Returns whether all were visited. `index` counts from 0.
 */
export async function inSlices<T>(
  items: Iterable<T>,
  visit: (item: T, index: number) => unknown,
): Promise<boolean> {
  let endMs = performance.now() + SLICE_MS;
  let index = 0;
  for (const item of items) {
    if (visit(item, index) === false) return false;
    index += 1;
    if (index % LOOK_EVERY !== 0 || performance.now() < endMs) continue;
    await nextTurn();
    endMs = performance.now() + SLICE_MS;
  }
  return true;
}
