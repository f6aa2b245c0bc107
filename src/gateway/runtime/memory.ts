import { readFileSync } from "node:fs";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** `short`: connections are closed after their response; `full`: new connections are refused. */
export type MemoryPressure = "enough" | "short" | "full";

const SHORT_SHARE = 0.8;
const FULL_SHARE = 0.9;

/** The files with the memory limit of this process's group, for cgroups version 2 and 1. */
const LIMITS = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];

/** The resident memory of this process as a share of its group's limit; 0 if there is no limit. */
export function memoryShare(): number {
  const limits = LIMITS.map((path) => Number.parseInt(read(path), 10)).filter((each) => each > 0);
  if (limits.length === 0) return 0;
  const [, residentKiB = "0"] = /^VmRSS:\s+(\d+) kB/m.exec(read("/proc/self/status")) ?? [];
  return (Number(residentKiB) * 1_024) / Math.min(...limits);
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
