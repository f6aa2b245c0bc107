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

/** Ticks of 10 ms since the machine started, over all cores. */
export type MachineTicks = {
  readonly all: number;
  /** Any program took them, or another machine on the same processor. */
  readonly busy: number;
  /** This process took them, or children of it that have ended. */
  readonly own: number;
};

export function machineTicks(): MachineTicks {
  const [line = ""] = readFileSync("/proc/stat", "utf8").split("\n");
  const [user = 0, nice = 0, system = 0, idle = 0, waiting = 0, ...others] = line
    .split(/ +/)
    .slice(1, 9)
    .map(Number);
  const busy = others.reduce((sum, ticks) => sum + ticks, user + nice + system);
  const own = /\) . (?:\S+ ){10}(\d+) (\d+) (\d+) (\d+) /.exec(
    readFileSync("/proc/self/stat", "utf8"),
  );
  const ownTicks = (own ?? []).slice(1).reduce((sum, ticks) => sum + Number(ticks), 0);
  return { all: busy + idle + waiting, busy, own: ownTicks };
}

/** The share of all cores that other programs took between two looks. */
export function othersShare(before: MachineTicks, after: MachineTicks): number {
  const others = after.busy - before.busy - (after.own - before.own);
  return Math.max(0, others) / Math.max(1, after.all - before.all);
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
