import type { KeyRecord } from "../../core/keys/records.ts";
import type { Result } from "../../core/refusal.ts";
import type { IncomingRequest } from "../../http1/server/incoming-request.ts";
import type { ResponseWriter } from "../../http1/server/response-writer.ts";
import type { ServerConnection } from "../../http1/server/server-connection.ts";
import type { RequestSpan } from "../../telemetry/tracing/tracing.ts";
import type { Environment } from "./environment.ts";

/**
 * The client asks for a WebSocket as it should (docs/reference/edge.md#upgrade). `nonce` is its
 * Sec-WebSocket-Key.
 */
export type Upgrade = { readonly nonce: string; readonly tunnels: TunnelRegistry };

/** Counts the tunnels of each key: implemented by the open tunnels of a listener. */
export type TunnelRegistry = {
  /** Counts a tunnel in; false where its key has as many as it may. */
  enter(tunnel: OpenTunnel): boolean;
  leave(tunnel: OpenTunnel): void;
};

/** An open tunnel, or one that waits for the backend's 101. */
export type OpenTunnel = {
  /** Undefined where none was needed. */
  readonly key: KeyRecord | undefined;
  /** The id of the key, or the account of an address: its tunnels are counted together. */
  readonly owner: string;
  /** The address of the client. */
  readonly client: string;
  readonly served: Environment;
  /** Ends it from our side: 1001, the gateway goes or nothing moves; 1008, the key may no longer. */
  close(status: 1001 | 1008, why: string): void;
};

/** The request, its answer and the connection that both belong to. */
export type ExchangeParts = {
  readonly request: IncomingRequest;
  readonly response: ResponseWriter;
  readonly connection: ServerConnection;
};

/** Known when the head has come. `last`: nothing that follows on the connection is a request. */
export type RequestContext = {
  readonly id: string;
  readonly startedMs: number;
  readonly peer: string;
  /** The one environment of the listener, where it has one: that of every request to it. */
  readonly onlyEnvironment: Environment | undefined;
  /** The client's address: the peer's, or as a trusted proxy tells it. */
  readonly client: string;
  /** Undefined if the client asks for no WebSocket; a refusal if it asks as it should not. */
  readonly upgrade: Result<Upgrade> | undefined;
  readonly closesConnection: boolean;
  /** Undefined while telemetry is off. */
  readonly trace?: RequestSpan | undefined;
};
