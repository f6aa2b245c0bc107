import { readdirSync, readFileSync } from "node:fs";

/** More files than any system lets a process open, for systems that do not say the limit. */
const UNKNOWN_MAX = 2 ** 30;

/** The number of files and sockets that this process may open, if the system says (Linux). */
function readFilesMax(): number {
  try {
    const found = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"));
    return found === null ? UNKNOWN_MAX : Number(found[1]);
  } catch {
    return UNKNOWN_MAX;
  }
}

const filesMax = readFilesMax();

/** The remedy for too few open files, as the end of a sentence. */
export const RAISE_OPEN_FILES = "raise their limit (ulimit -n), or lower limits.connections";

/** Whether an error code of the system says that no further file can be opened. */
export function isFilesShortage(code: string): boolean {
  return code === "EMFILE" || code === "ENFILE";
}

const CLIENTS_SHARE = 0.8;
const CLIENTS_SHARE_MIN = 0.5;
const ADMIN_SHARE = 0.05;
/** The upstreams have this share at least, even if the rest of the process has more than its part. */
const UPSTREAMS_SHARE_MIN = 0.125;
/** Files that come and go: state files, a reload, connections to a store or a receiver of events. */
const PASSING_FILES = 16;

/** The most connections of the admin listener. */
export const ADMIN_CONNECTIONS_MAX = Math.min(256, Math.floor(ADMIN_SHARE * filesMax));

/** The files that this process has open when it begins to serve, and those that come and go. */
let ownFiles: number | undefined;
function countOwnFiles(): number {
  try {
    ownFiles ??= readdirSync("/proc/self/fd").length + PASSING_FILES;
  } catch {
    ownFiles = PASSING_FILES;
  }
  return ownFiles;
}

/** The files that are left for clients and upstreams. */
function filesLeft(): number {
  return filesMax - countOwnFiles() - ADMIN_CONNECTIONS_MAX;
}

/**
 * The most connections of all clients together: so many that `upstreamConnections` and the admin
 * listener have theirs, because a client without a connection to an upstream is not served.
 */
export function clientConnectionsMax(upstreamConnections: number): number {
  const most = Math.min(CLIENTS_SHARE * filesMax, filesLeft() - upstreamConnections);
  return Math.floor(Math.max(CLIENTS_SHARE_MIN * filesMax, most));
}

/**
 * The sockets to upstreams. Up to `part` of them each upstream may open whatever others have; those
 * `beyond` come out of the `common` ones, which whoever comes first has.
 */
export const upstreamFiles = { open: 0, part: UNKNOWN_MAX, beyond: 0, common: UNKNOWN_MAX };

/** The sockets to one upstream. Nobody who holds those of another one can take its part. */
export class UpstreamSockets {
  /** The most that its requests need, so that it keeps no others from the rest. */
  needed: number;
  #open = 0;
  #beyond = 0;

  constructor(needed: number) {
    this.needed = needed;
  }

  /** Whether it may open no further one for now. */
  get isFull(): boolean {
    return !this.#hasPart && upstreamFiles.beyond >= upstreamFiles.common;
  }

  get #hasPart(): boolean {
    return this.#open - this.#beyond < Math.min(this.needed, upstreamFiles.part);
  }

  opened(): void {
    const beyond = this.#hasPart ? 0 : 1;
    this.#count(1, beyond);
  }

  closed(): void {
    this.#count(-1, this.#beyond > 0 ? -1 : 0);
  }

  #count(open: number, beyond: number): void {
    this.#open += open;
    this.#beyond += beyond;
    upstreamFiles.open += open;
    upstreamFiles.beyond += beyond;
  }
}

/**
 * Leaves `clientConnections` and the admin listener their files: the upstreams have the others, half
 * of them in equal parts.
 */
export function reserveFiles(
  clientConnections: number,
  upstreamConnections: readonly number[],
): void {
  const left = filesLeft() - clientConnections;
  const most = Math.floor(Math.max(UPSTREAMS_SHARE_MIN * filesMax, left));
  const part = Math.floor(most / 2 / Math.max(1, upstreamConnections.length));
  upstreamFiles.part = part;
  upstreamFiles.common = upstreamConnections.reduce(
    (rest, one) => rest - Math.min(one, part),
    most,
  );
}
