import type { IncomingHttpHeaders } from "node:http";
import { clientResponseFields } from "../../core/http/forwarded-fields.ts";
import { gatewayFields, replacedFields } from "../../core/http/gateway-fields.ts";
import { WEBSOCKET_VERSION, webSocketAccept } from "../../core/http/websocket.ts";
import type { UpstreamSpan } from "../../telemetry/tracing/tracing.ts";
import {
  type ForwardContext,
  upstreamFields,
  upstreamHostField,
} from "../forward/upstream-request.ts";
import type { Upstream } from "../upstreams/upstream.ts";

/**
 * The fields of a handshake to the upstream: those of any request, followed by the handshake's own,
 * so that no field that a client nominates in Connection can remove them.
 */
export function handshakeFields(
  context: ForwardContext,
  upstream: Pick<Upstream, "host">,
  nonce: string,
  span?: UpstreamSpan | undefined,
): IncomingHttpHeaders {
  return Object.assign(recordOf(upstreamFields(context, span?.fields)), {
    host: upstreamHostField(context, upstream),
    connection: "Upgrade",
    upgrade: "websocket",
    "sec-websocket-version": WEBSOCKET_VERSION,
    "sec-websocket-key": nonce,
  });
}

/** The fields of the 101 to the client: the handshake's own, the upstream's and the gateway's. */
export function switchingFields(
  context: ForwardContext,
  raw: readonly string[],
  nonce: string,
): IncomingHttpHeaders {
  const own = ["content-length", "sec-websocket-accept"];
  const replaced = new Set([...replacedFields(context.exchange), ...own]);
  const theirs = clientResponseFields(raw, { replaced, status: 101 });
  return recordOf([
    ...["Upgrade", "websocket", "Connection", "Upgrade"],
    ...["Sec-WebSocket-Accept", webSocketAccept(nonce)],
    ...gatewayFields(context.exchange, theirs),
  ]);
}

/** The fields of any other response of the upstream, as a flat list. */
export function declinedFields(
  context: ForwardContext,
  raw: readonly string[],
  status: number,
): string[] {
  const theirs = clientResponseFields(raw, { replaced: replacedFields(context.exchange), status });
  return gatewayFields(context.exchange, theirs);
}

/** Converts a flat list for the library: names in lower case, repeated fields as lists. */
function recordOf(fields: readonly string[]): Record<string, string | string[]> {
  const record: Record<string, string | string[]> = Object.create(null);
  for (let i = 0; i < fields.length; i += 2) {
    const name = (fields[i] as string).toLowerCase();
    const value = fields[i + 1] as string;
    const before = record[name];
    record[name] = before === undefined ? value : [before, value].flat();
  }
  return record;
}
