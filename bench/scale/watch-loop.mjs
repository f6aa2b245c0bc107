// Preloaded into a gateway: tells on stderr, at each SIGUSR2, how much processor time its event loop
// took at most between two turns since the last one. By the processor's time and not by the clock, so
// that a machine which is busy with other things shows no stall.
const usedMs = () => {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1_000;
};

let lastMs = usedMs();
let longestMs = 0;
setInterval(() => {
  const nowMs = usedMs();
  longestMs = Math.max(longestMs, nowMs - lastMs);
  lastMs = nowMs;
}, 1).unref();
process.on("SIGUSR2", () => {
  process.stderr.write(`stall ${longestMs.toFixed(1)} ms\n`);
  longestMs = 0;
});
