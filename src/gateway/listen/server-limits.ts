import { clientConnectionsMax, RAISE_OPEN_FILES, reserveFiles } from "../../base/open-files.ts";
import type { ServerLimits } from "../../http1/server/server-limits.ts";
import { type Environment, type GatewayContext, loosestLimits } from "../exchange/environment.ts";
import type { TableLimits } from "./connection-table.ts";
import { type ListenerSpec, poolsOf } from "./environments.ts";

/** A client that sends this many bytes ahead is not read from until the responses are out. */
const AHEAD_BYTES_MAX = 65_536;
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
 * The limits of the connections of one listener, from the configuration, memory, and its part of the
 * open files.
 */
export function tableLimits(
  environments: readonly Environment[],
  { memory }: Pick<GatewayContext, "memory">,
  filesMax: number,
): TableLimits {
  const { connections, connectionsPerAddress, headersTimeoutMs } = loosestLimits(environments);
  return {
    connectionsMax: memory === "full" ? 0 : Math.min(connections, filesMax),
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
  filesMax: number,
): void {
  const { connections: wanted } = loosestLimits(environments);
  if (filesMax >= wanted || told.has(gateway)) return;
  told.add(gateway);
  const why = `open files: ${RAISE_OPEN_FILES}`;
  gateway.log.info("connections_limited", { connections: filesMax, wanted, why });
}

/** The part of the open files that each of these listeners has for its clients. */
export function filesOfEach(listening: readonly ListenerSpec[]): number {
  const upstreamConnections = connectionsOf(listening).reduce((sum, each) => sum + each, 0);
  return Math.floor(clientConnectionsMax(upstreamConnections) / listening.length);
}

/**
 * Reserves these parts, because a connection to an upstream that took the last file would leave none
 * for a probe.
 */
export function reserveFilesOf(listening: readonly ListenerSpec[], filesMax: number): void {
  const clients = listening.map(({ environments }) => {
    return Math.min(loosestLimits(environments).connections, filesMax);
  });
  const all = clients.reduce((sum, each) => sum + each, 0);
  reserveFiles(all, connectionsOf(listening));
}

/** The most connections of each upstream. */
function connectionsOf(listening: readonly ListenerSpec[]): number[] {
  return [...new Set(poolsOf(listening))].flatMap(({ all, options }) =>
    all.map(() => options.connectionsMax),
  );
}
