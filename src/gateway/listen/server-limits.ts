import { readFileSync } from "node:fs";
import type { Server } from "node:http";
import type { EdgeLimits } from "../../core/http/edge-limits.ts";
import { type Gateway, loosestLimits, type Served } from "../exchange/served.ts";

/** Applies what holds for connections, and for heads whose host is not known yet. */
export function limit(server: Server, serves: readonly Served[], { memory }: Gateway): void {
  const limits = loosestLimits(serves);
  // The gateway counts rawHeaders itself: the parser's own limit drops fields and says nothing
  // (docs/reference/edge.md#request-head).
  server.maxHeadersCount = 0;
  Object.assign(server, { maxHeaderSize: parserBytesMax(limits) });
  server.headersTimeout = limits.headersTimeoutMs;
  server.requestTimeout = Math.max(limits.requestTimeoutMs, limits.headersTimeoutMs);
  server.keepAliveTimeout = limits.idleTimeoutMs;
  server.maxConnections = memory === "full" ? 0 : connectionsMax(limits.connections);
}

/** Room for a target and fields that are each at their limit, so that ours is the answer. */
function parserBytesMax({ headerBytes, urlBytes }: EdgeLimits): number {
  return headerBytes + urlBytes + 1_024;
}

/** Gateways that have told: all of their listeners share the open files, and one line says so. */
const told = new WeakSet<Gateway>();

/** Says once where the configuration allows more connections than there may be open files. */
export function tellLimit(server: Server, serves: readonly Served[], gateway: Gateway): void {
  const { connections: wanted } = loosestLimits(serves);
  const { maxConnections: connections, listening } = server;
  if (connections >= wanted || !listening || told.has(gateway)) return;
  told.add(gateway);
  const why = "open files: raise their limit (ulimit -n), or lower limits.connections";
  gateway.log.info("connections_limited", { connections, wanted, why });
}

/** The rest of the open files is for backends, the store, the log and files proper. */
const SHARE = 0.8;

/**
 * The number of files and sockets that this process may have open, where the system tells (Linux).
 */
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
function connectionsMax(wanted: number): number {
  return filesMax === undefined ? wanted : Math.min(wanted, Math.floor(SHARE * filesMax));
}
