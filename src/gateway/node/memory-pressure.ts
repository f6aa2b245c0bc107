import { readFileSync } from "node:fs";

/** `short`: connections are not kept any more; `full`: no new ones are taken. */
export type Memory = "enough" | "short" | "full";

const SHORT_SHARE = 0.8;
const FULL_SHARE = 0.9;

/** Where the limit of the group of this process is, of cgroups version 2 and 1. */
const LIMITS = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/** What is resident of this process, as a share of what its group may have; 0 where none is told. */
export function memoryShare(): number {
  const limits = LIMITS.map((path) => Number.parseInt(read(path), 10)).filter((each) => each > 0);
  if (limits.length === 0) return 0;
  const [, residentKiB = "0"] = /^VmRSS:\s+(\d+) kB/m.exec(read("/proc/self/status")) ?? [];
  return (Number(residentKiB) * 1_024) / Math.min(...limits);
}

/** How that share is dealt with: an end by force would take every request along, not a few. */
export function judgeMemory(share: number): Memory {
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
