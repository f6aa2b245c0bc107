import { spawn } from "node:child_process";
import { once } from "node:events";

/**
 * Counts the instructions of all threads of the processes, in user space and in the kernel, for so
 * long. Undefined where `perf` or the counters of the processor are missing.
 */
export async function countInstructions(
  pids: readonly number[],
  ms: number,
): Promise<number | undefined> {
  const seconds = String(ms / 1_000);
  const wanted = ["stat", "-x", ",", "-e", "instructions", "-p", pids.join()];
  const perf = spawn("perf", [...wanted, "--", "sleep", seconds], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  perf.stderr.on("data", (text) => {
    said += text;
  });
  const ended = await once(perf, "close").catch(() => undefined);
  const count = Number(/^(\d+),/m.exec(said)?.[1]);
  return ended === undefined || !(count > 0) ? undefined : count;
}
