import { connectionsWithin, RAISE_OPEN_FILES } from "../../base/open-files.ts";
import type { ServerLimits } from "../../http1/server/server-limits.ts";
import { type Environment, type GatewayContext, loosestLimits } from "../exchange/environment.ts";
import type { TableLimits } from "./connection-table.ts";

/** A client that sends this many bytes ahead is not read from until the responses are out. */
const AHEAD_BYTES_MAX = 65_536;
/** The rest of the open files is for upstreams, the store, the admin listener, the log and regular files. */
const FILES_SHARE = 0.8;
/** How long a client that keeps sending after its refusal is read: in all, and without a byte. */
const LINGER_MS = 5_000;
const LINGER_IDLE_MS = 1_000;

/**
 * The limits of a connection, and of heads whose host is not known yet. The parser accepts a head
 * that is a little too long, so that its refusal has a request id
 * (docs/reference/edge.md#request-head).
 */
export function serverLimits(environments: readonly Environment[]): ServerLimits {
  const limits = loosestLimits(environments);
  const lineBytesMax = limits.urlBytes + limits.headerBytes;
  return {
    lineBytesMax,
    headBytesMax: lineBytesMax + limits.headerBytes + 1_024,
    fieldBytesMax: limits.headerBytes,
    fieldCountMax: limits.headerCount,
    aheadBytesMax: AHEAD_BYTES_MAX,
    headersTimeoutMs: limits.headersTimeoutMs,
    requestTimeoutMs: limits.requestTimeoutMs,
    idleTimeoutMs: limits.idleTimeoutMs,
    lingerMs: LINGER_MS,
    lingerIdleMs: LINGER_IDLE_MS,
  };
}

/**
 * The limits of the connections of one of `listeners` listeners, from the configuration, open files
 * and memory.
 */
export function tableLimits(
  environments: readonly Environment[],
  { memory }: Pick<GatewayContext, "memory">,
  listeners: number,
): TableLimits {
  const { connections, connectionsPerAddress, headersTimeoutMs } = loosestLimits(environments);
  return {
    connectionsMax: memory === "full" ? 0 : connectionsMax(connections, listeners),
    perAddressMax: connectionsPerAddress,
    headersTimeoutMs,
  };
}

/** Gateways that have warned: all their listeners share the open files, so one line is enough. */
const told = new WeakSet<GatewayContext>();

/** Warns once if the configuration allows more connections than the open files limit does. */
export function warnOfFileLimit(
  environments: readonly Environment[],
  gateway: GatewayContext,
  listeners: number,
): void {
  const { connections: wanted } = loosestLimits(environments);
  const connections = connectionsMax(wanted, listeners);
  if (connections >= wanted || told.has(gateway)) return;
  told.add(gateway);
  const why = `open files: ${RAISE_OPEN_FILES}`;
  gateway.log.info("connections_limited", { connections, wanted, why });
}

/**
 * The connections that one of `listeners` listeners may really have, out of those that the
 * configuration allows. If clients took the last descriptor, none would be left for connections to
 * the upstreams.
 */
function connectionsMax(wanted: number, listeners: number): number {
  return connectionsWithin(FILES_SHARE / listeners, wanted);
}
