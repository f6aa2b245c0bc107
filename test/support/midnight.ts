import { setTimeout as sleep } from "node:timers/promises";

const DAY_MS = 86_400_000;
/** Far more than a file takes on a busy machine. */
const FILE_MS_MAX = 180_000;

/** How long a file of tests waits before it begins. */
export function waitMs(nowMs: number): number {
  const leftMs = DAY_MS - (nowMs % DAY_MS);
  return leftMs < FILE_MS_MAX ? leftMs : 0;
}

// Most limits of the tests are of a day, by the clocks of the machine and of Redis: a file that
// would go over midnight UTC begins after it, so that what it has counted is not of two days.
for (let ms = waitMs(Date.now()); ms > 0; ms = waitMs(Date.now())) await sleep(ms);
