import { readFileSync } from "node:fs";
import { totalmem } from "node:os";
import { dirname, join } from "node:path/posix";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** `short`: connections are closed after their response; `full`: new connections are refused. */
export type MemoryPressure = "enough" | "short" | "full";

const SHORT_SHARE = 0.8;
const FULL_SHARE = 0.9;

/** A line of /proc/self/cgroup with the process's group: of version 2, or of version 1 for memory. */
const GROUP = /^(?:0:|\d+:(?:[^:]*,)?memory(?:,[^:]*)?):(\/.*)$/gm;

/**
 * The smallest memory limit of the process's group and of the groups around it, in bytes; Infinity
 * if there is none. `process.constrainedMemory()` does not look at those around it. The last one
 * looked at is the root of the mount, which is the process's own group in many containers.
 */
export function memoryLimit(read: (path: string) => string, machineBytes: number): number {
  let limit = Number.POSITIVE_INFINITY;
  for (const [line, path = "/"] of read("/proc/self/cgroup").matchAll(GROUP)) {
    const [mount, file] = line.startsWith("0::")
      ? ["/sys/fs/cgroup", "memory.max"]
      : ["/sys/fs/cgroup/memory", "memory.limit_in_bytes"];
    for (let group = join("/", path); ; group = dirname(group)) {
      const bytes = Number.parseInt(read(join(mount, group, file)), 10);
      if (bytes > 0 && bytes <= machineBytes) limit = Math.min(limit, bytes);
      if (group === "/") break;
    }
  }
  return limit;
}

/** The resident memory of this process as a share of its group's limit; 0 if there is no limit. */
export function memoryShare(): number {
  const limit = memoryLimit(read, totalmem());
  const [, residentKiB = "0"] = /^VmRSS:\s+(\d+) kB/m.exec(read("/proc/self/status")) ?? [];
  return (Number(residentKiB) * 1_024) / limit;
}

/** Judges that share. The system kills a process at the limit, and with it every request. */
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

/**
 * Bytes of bodies between two collections. With 64 uploads at a time a collection takes 1.4 ms of
 * CPU over all threads. Every 4 MiB they were an eighth of the CPU of uploads of 64 KiB.
 */
const EVERY_BYTES = 8 * 1024 * 1024;

type Collection = { readonly type: "minor" | "major"; readonly flavor?: "last-resort" };
type Collector = (options: Collection) => void;
let collector: Collector | undefined;
let bytes = 0;

/**
 * The collector is made at its first use, and the setting that shows it is taken back: V8 accepts
 * stored code only under the settings that it was compiled under, so every module that is loaded
 * under another setting would be compiled again.
 */
function gc(options: Collection): void {
  collector ??= makeCollector();
  collector(options);
}

function makeCollector(): Collector {
  if (globalThis.gc !== undefined) return globalThis.gc as Collector;
  setFlagsFromString("--expose-gc");
  try {
    return runInNewContext("gc") as Collector;
  } finally {
    setFlagsFromString("--no-expose-gc");
  }
}

/**
 * Counts the bytes of forwarded bodies and regularly collects the young generation. A piece that is
 * read from a socket is a buffer outside the heap, and it lives as long as its small object in the
 * heap. Without these collections a fast stream keeps 80 MB of dead buffers before V8 starts one
 * (docs/reference/edge.md#streaming allows 20 MB).
 */
export function countForwardedBytes(chunkBytes: number): void {
  bytes += chunkBytes;
  if (bytes < EVERY_BYTES) return;
  bytes = 0;
  gc({ type: "minor" });
}

/**
 * Collects all garbage and returns the freed memory to the system, which a plain collection does
 * not. It blocks the event loop: 50 ms when 27 of 160 MB were in use.
 */
export function releaseMemory(): void {
  gc({ type: "major", flavor: "last-resort" });
}
