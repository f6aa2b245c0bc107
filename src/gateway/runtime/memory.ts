import { readFileSync } from "node:fs";

/** `short`: connections are not kept any more; `full`: no new ones are taken. */
export type MemoryPressure = "enough" | "short" | "full";

const SHORT_SHARE = 0.8;
const FULL_SHARE = 0.9;

/** The files with the memory limit of this process's group, for cgroups version 2 and 1. */
const LIMITS = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/** The resident memory of this process as a share of its group's limit; 0 where there is none. */
export function memoryShare(): number {
  const limits = LIMITS.map((path) => Number.parseInt(read(path), 10)).filter((each) => each > 0);
  if (limits.length === 0) return 0;
  const [, residentKiB = "0"] = /^VmRSS:\s+(\d+) kB/m.exec(read("/proc/self/status")) ?? [];
  return (Number(residentKiB) * 1_024) / Math.min(...limits);
}

/** Judges that share: an end by force would take every request along, not a few. */
export function memoryPressure(share: number): MemoryPressure {
  if (share > FULL_SHARE) return "full";
  return share > SHORT_SHARE ? "short" : "enough";
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
