import { readFileSync } from "node:fs";

/** The number of files and sockets that this process may open, if the system says (Linux). */
function readFilesMax(): number {
  try {
    const found = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"));
    return found === null ? Number.POSITIVE_INFINITY : Number(found[1]);
  } catch {
    return Number.POSITIVE_INFINITY;
  }
}

const filesMax = readFilesMax();

/** The remedy for too few open files, as the end of a sentence. */
export const RAISE_OPEN_FILES = "raise their limit (ulimit -n), or lower limits.connections";

/**
 * The connections, out of those that are `wanted`, that fit in a share of the files which this
 * process may open: clients of one listener leave the others, the upstreams and the store theirs.
 */
export function connectionsWithin(share: number, wanted: number): number {
  return Math.min(wanted, Math.floor(share * filesMax));
}
