import { setImmediate as turn } from "node:timers/promises";

/** The longest that one slice of long work delays requests, and how often it checks. */
const SLICE_MS = 1;
const LOOK_EVERY = 16;

/** Items compared by identity before the event loop continues: some tens of microseconds. */
const COMPARED_AT_ONCE = 16_384;

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

/** The parts of a time that a process is to run. */
const RUN_PARTS = 10;

/**
 * Calls back when this process has run for `ms`, after a full poll phase. A stall counts as one part
 * of the time, so that others have theirs to answer when a machine goes on. Returns what cancels it.
 */
export function afterRunning(ms: number, late: () => void): () => void {
  let partsLeft = RUN_PARTS;
  let timer: NodeJS.Timeout | undefined;
  const runPart = () => {
    if (partsLeft < 0) return;
    if (partsLeft === 0) late();
    else timer = setTimeoutAfterPoll(ms / RUN_PARTS, runPart);
    partsLeft -= 1;
  };
  runPart();
  return () => {
    partsLeft = -1;
    clearTimeout(timer);
  };
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

/**
 * The indexes at which two lists have different objects, in many turns of the event loop. Undefined
 * if there are more than `max`. Comparing costs far less than visiting each object with `inSlices`.
 */
export async function differingIndexes(
  before: readonly unknown[],
  after: readonly unknown[],
  max = Number.POSITIVE_INFINITY,
): Promise<readonly number[] | undefined> {
  const found: number[] = [];
  const length = before === after ? 0 : Math.max(before.length, after.length);
  for (let from = 0; from < length; from += COMPARED_AT_ONCE) {
    if (from > 0) await nextTurn();
    const end = Math.min(length, from + COMPARED_AT_ONCE);
    for (let i = from; i < end; i++) if (before[i] !== after[i]) found.push(i);
    if (found.length > max) return undefined;
  }
  return found;
}
