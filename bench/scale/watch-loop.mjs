// Preloaded into a gateway: tells on stderr, at each SIGUSR2, how long its event loop stood still at
// most since the last one.
import { monitorEventLoopDelay } from "node:perf_hooks";

const RESOLUTION_MS = 1;
const loop = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
loop.enable();
process.on("SIGUSR2", () => {
  const stallMs = Math.max(0, loop.max / 1e6 - RESOLUTION_MS);
  process.stderr.write(`stall ${stallMs.toFixed(1)} ms\n`);
  loop.reset();
});
