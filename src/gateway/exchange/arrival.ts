import type { IncomingRequest } from "../../http1/server/incoming-request.ts";
import type { ResponseWriter } from "../../http1/server/response-writer.ts";
import type { ServerConnection } from "../../http1/server/server-connection.ts";
import type { RequestSpan } from "../../telemetry/tracing/tracing.ts";
import type { Upgrade } from "./open-tunnel.ts";

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
  readonly environment: string | undefined;
  /** The client's address: the peer's, or as a trusted proxy tells it. */
  readonly client: string;
  /** Set where the client asks for a WebSocket: then this request is its last. */
  readonly upgrade: Upgrade | undefined;
  readonly last: boolean;
  /** Undefined while telemetry is off. */
  readonly trace?: RequestSpan | undefined;
};
