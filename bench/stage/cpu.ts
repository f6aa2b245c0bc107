import { readdirSync, readFileSync } from "node:fs";

/** CPU that all threads of the processes have used so far, in microseconds. */
export function cpuUs(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => sum + cpuOfUs(pid), 0);
}

/** By the scheduler, which counts in nanoseconds where /proc/PID/stat counts in ticks of 10 ms. */
function cpuOfUs(pid: number): number {
  let ns = 0;
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    ns += Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8").split(" ")[0]);
  }
  return ns / 1000;
}

/** A process with its children and theirs. */
export function familyOf(pid: number): number[] {
  const threads = readdirSync(`/proc/${pid}/task`);
  const children = threads.flatMap((thread) => {
    const text = readFileSync(`/proc/${pid}/task/${thread}/children`, "utf8");
    return text.split(" ").filter(Boolean).map(Number);
  });
  return [pid, ...children.flatMap(familyOf)];
}

/** Bytes of memory that the processes have in RAM. */
export function residentBytes(pids: readonly number[]): number {
  return pids.reduce((sum, pid) => {
    const text = readFileSync(`/proc/${pid}/status`, "utf8");
    return sum + Number(/^VmRSS:\s+(\d+) kB/m.exec(text)?.[1] ?? 0) * 1024;
  }, 0);
}
