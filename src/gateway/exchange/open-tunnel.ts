import type { KeyRecord } from "../../core/keys/records.ts";
import type { Result } from "../../core/refusal.ts";
import type { IncomingRequest } from "../../http1/server/incoming-request.ts";
import type { ResponseWriter } from "../../http1/server/response-writer.ts";
import type { ServerConnection } from "../../http1/server/server-connection.ts";
import type { RequestSpan } from "../../telemetry/tracing/tracing.ts";
import type { Environment } from "./environment.ts";

/**
 * A valid WebSocket handshake of the client (docs/reference/edge.md#upgrade). `nonce` is its
 * Sec-WebSocket-Key.
 */
export type Upgrade = { readonly nonce: string; readonly tunnels: TunnelRegistry };

/** Counts the tunnels of each key. The open tunnels of a listener implement it. */
export type TunnelRegistry = {
  /** Registers a tunnel. Returns false if its key has the most tunnels allowed. */
  enter(tunnel: OpenTunnel): boolean;
  leave(tunnel: OpenTunnel): void;
};

/** An open tunnel, or one that waits for the upstream's 101. */
export type OpenTunnel = {
  /** Undefined if none was needed. */
  readonly key: KeyRecord | undefined;
  /** The id of the key, or the account of an address. Tunnels are counted by it. */
  readonly owner: string;
  /** The address of the client. */
  readonly client: string;
  readonly environment: Environment;
  /**
   * Closes it from the gateway's side. 1001: the gateway stops, or the tunnel is idle; 1008: the
   * key is not allowed any more.
   */
  close(status: 1001 | 1008, why: string): void;
};

/** The request, its response and the connection that both belong to. */
export type ExchangeParts = {
  readonly request: IncomingRequest;
  readonly response: ResponseWriter;
  readonly connection: ServerConnection;
};

/**
 * Known when the head has arrived, at `startedMs`; its first byte came at `beganMs`.
 * `closesConnection`: no request follows it on the connection.
 */
export type RequestContext = {
  readonly id: string;
  readonly beganMs: number;
  readonly startedMs: number;
  readonly peer: string;
  /** The environment of the listener, if it has only one: every request belongs to it. */
  readonly onlyEnvironment: Environment | undefined;
  /** The client's address: the peer's, or the one that a trusted proxy reports. */
  readonly client: string;
  /** Undefined if the client asks for no WebSocket; a refusal if its handshake is invalid. */
  readonly upgrade: Result<Upgrade> | undefined;
  readonly closesConnection: boolean;
  /** Undefined while telemetry is off. */
  readonly span?: RequestSpan | undefined;
};
