import { readFileSync } from "node:fs";

/** What is left of the files of this process is for backends, the store, the log and files proper. */
const SHARE = 0.8;

/** How many files and sockets this process may have open, where the system tells (Linux). */
function readFilesMax(): number | undefined {
  try {
    const found = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"));
    return found === null ? undefined : Number(found[1]);
  } catch {
    return undefined;
  }
}

const filesMax = readFilesMax();

/**
 * The connections that a listener may really have, of those that the configuration allows. Clients
 * that took the last descriptor would take it from the backend's side of those who are served.
 */
export function connectionsMax(wanted: number): number {
  return filesMax === undefined ? wanted : Math.min(wanted, Math.floor(SHARE * filesMax));
}
