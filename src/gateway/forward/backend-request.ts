import { requestFields } from "../../core/http/fields.ts";
import type { Head } from "../../core/http/head.ts";
import type { TraceFields } from "../../core/http/trace.ts";
import type { Standing } from "../../core/quota/standing.ts";
import type { ForwardTrace } from "../../telemetry/tracing.ts";
import type { OutgoingRequest } from "../../wire/outgoing-request.ts";
import type { Exchange } from "../exchange/exchange.ts";
import { type Backend, type Gateway, type Served, schemeOf } from "../exchange/served.ts";
import type { Caller } from "../stages/identify.ts";
import type { Upstream } from "../upstreams/backend-connection.ts";

/** An exchange that got this far: its head was judged, its key accepted, its quota charged. */
export type Admitted = {
  readonly gateway: Gateway;
  readonly exchange: Exchange;
  readonly served: Served;
  readonly backend: Backend;
  readonly head: Head;
  /** Forwarded byte for byte as it was matched. */
  readonly target: string;
  readonly caller: Caller;
  readonly standing: Standing;
};

/** The request as it goes to this upstream; the connection writes Host and the framing. */
export function outgoingRequest(
  admitted: Admitted,
  upstream: Upstream,
  trace: ForwardTrace | undefined,
): OutgoingRequest {
  const { head, target } = admitted;
  return {
    method: head.method,
    target,
    host: hostFor(admitted, upstream),
    fields: outgoingFields(admitted, trace?.fields),
    body: bodyOf(head),
  };
}

/** The span of a try at this upstream; undefined while telemetry is off. */
export function traceTry(
  { exchange, served, head, target }: Admitted,
  { origin }: Pick<Upstream, "origin">,
): ForwardTrace | undefined {
  const { trace } = exchange.arrival;
  const { foreignKeys } = served;
  return trace?.forward({ method: head.method, origin, target, foreignKeys });
}

/** The Host that the backend sees: its own, unless the client's is wanted. */
export function hostFor({ served, head }: Admitted, { host }: Pick<Upstream, "host">): string {
  return served.upstreamHost === "client" ? head.host : host;
}

/** RFC 9110 8.6: these say that they have no body, where others just have none. */
const TELL_EMPTY: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);

function bodyOf({ method, chunked, contentLength }: Head): OutgoingRequest["body"] {
  if (chunked) return "chunked";
  if (contentLength !== undefined && contentLength > 0) return contentLength;
  return TELL_EMPTY.has(method) ? 0 : undefined;
}

/** The fields of the request to the backend, flat, without Host and those of the framing. */
export function outgoingFields(admitted: Admitted, trace: TraceFields | undefined): string[] {
  const { gateway, exchange, served, backend, head, caller } = admitted;
  return requestFields(head, {
    requestId: exchange.id,
    key: caller.key,
    owner: caller.owner,
    keyHeaders: served.keyHeaders,
    peer: exchange.arrival.peer,
    peerIsTrusted: gateway.isTrusted(exchange.arrival.peer),
    scheme: schemeOf(served),
    prefix: backend.stripPrefix,
    trace,
  });
}
