import { upstreamRequestFields } from "../../core/http/forwarded-fields.ts";
import type { RequestHead } from "../../core/http/head.ts";
import type { TraceFields } from "../../core/http/trace-context.ts";
import { readsBody } from "../../core/meters/answer-reader.ts";
import type { OutgoingRequest } from "../../http1/client/outgoing-request.ts";
import type { UpstreamSpan } from "../../telemetry/tracing/tracing.ts";
import {
  type Environment,
  type GatewayContext,
  type Service,
  schemeOf,
} from "../exchange/environment.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { Caller } from "../stages/authenticate.ts";
import type { Upstream } from "../upstreams/upstream.ts";

/** An exchange whose head was judged, whose key was accepted and whose quota was charged. */
export type ForwardContext = {
  readonly gateway: GatewayContext;
  readonly exchange: Exchange;
  readonly environment: Environment;
  readonly service: Service;
  readonly head: RequestHead;
  /** Forwarded byte for byte as it was matched. */
  readonly target: string;
  readonly caller: Caller;
};

/** The request as it is sent to this upstream. The connection writes Host and the framing. */
export function upstreamRequest(
  context: ForwardContext,
  upstream: Upstream,
  span: UpstreamSpan | undefined,
): OutgoingRequest {
  const { head, target } = context;
  return {
    method: head.method,
    target,
    host: upstreamHostField(context, upstream),
    fields: upstreamFields(context, span?.fields),
    body: bodyOf(head),
  };
}

/** The span of an attempt at this upstream; undefined while telemetry is off. */
export function startUpstreamSpan(
  { exchange, environment, head, target }: ForwardContext,
  { origin }: Pick<Upstream, "origin">,
): UpstreamSpan | undefined {
  const { span } = exchange.arrival;
  const { foreignKeys } = environment;
  return span?.forward({ method: head.method, origin, target, foreignKeys });
}

/** The Host that the upstream gets: its own, unless the configuration asks for the client's. */
export function upstreamHostField(
  { environment, head }: ForwardContext,
  { host }: Pick<Upstream, "host">,
): string {
  return environment.upstreamHost === "client" ? head.host : host;
}

/** RFC 9110 8.6: these send a Content-Length of 0 if they have no body; other methods send none. */
const TELL_EMPTY: ReadonlySet<string> = new Set(["POST", "PUT", "PATCH"]);

function bodyOf({ method, framing }: RequestHead): OutgoingRequest["body"] {
  if (framing !== 0) return framing;
  return TELL_EMPTY.has(method) ? 0 : undefined;
}

/** The fields of the request to the upstream, flat, without Host and the framing fields. */
export function upstreamFields(context: ForwardContext, trace: TraceFields | undefined): string[] {
  const { gateway, exchange, environment, service, head, caller } = context;
  return upstreamRequestFields(head, {
    requestId: exchange.id,
    key: caller.key,
    owner: caller.owner,
    keyHeaders: environment.keyHeaders,
    peer: exchange.arrival.peer,
    peerIsTrusted: gateway.isTrusted(exchange.arrival.peer),
    scheme: schemeOf(environment),
    prefix: service.stripPrefix,
    readsAnswer: readsBody(exchange.meters),
    trace,
  });
}
