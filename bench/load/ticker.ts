import { Worker } from "node:worker_threads";

/** Waits by the kernel's clock, which is finer than the milliseconds of Node's timers. */
const TICKS = `
const { parentPort, workerData } = require("node:worker_threads");
const cell = new Int32Array(workerData.shared);
const startMs = performance.now();
for (let tick = 1; Atomics.load(cell, 0) === 0; tick++) {
  const waitMs = startMs + tick * workerData.everyMs - performance.now();
  if (waitMs > 0) Atomics.wait(cell, 0, 0, waitMs);
  parentPort.postMessage(0);
}
`;

/** Calls `onTick` so many times a second, evenly, until it is stopped. */
export function startTicker(ratePerSecond: number, onTick: () => void): () => void {
  const shared = new SharedArrayBuffer(4);
  const cell = new Int32Array(shared);
  const worker = new Worker(TICKS, {
    eval: true,
    workerData: { shared, everyMs: 1000 / ratePerSecond },
  });
  worker.on("message", onTick);
  return () => {
    worker.off("message", onTick);
    Atomics.store(cell, 0, 1);
    Atomics.notify(cell, 0);
  };
}
