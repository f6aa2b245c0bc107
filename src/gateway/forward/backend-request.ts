import { requestFields } from "../../core/http/fields.ts";
import type { Head } from "../../core/http/head.ts";
import type { Standing } from "../../core/quota/standing.ts";
import type { Exchange } from "../exchange/exchange.ts";
import { type Backend, type Gateway, type Served, schemeOf } from "../exchange/served.ts";
import type { Caller } from "../stages/identify.ts";

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

/**
 * The fields of the request to the backend, flat. The client library reads Content-Length as what
 * the body must come to, and writes the framing itself; Host is its own unless the client's is
 * wanted.
 */
export function outgoingFields(admitted: Admitted): string[] {
  const { gateway, exchange, served, backend, head, caller } = admitted;
  const fields = requestFields(head, {
    requestId: exchange.id,
    key: caller.key,
    owner: caller.owner,
    keyHeaders: served.keyHeaders,
    peer: exchange.arrival.peer,
    peerIsTrusted: gateway.isTrusted(exchange.arrival.peer),
    scheme: schemeOf(served),
    prefix: backend.stripPrefix,
  });
  if (served.upstreamHost === "client") fields.push("Host", head.host);
  if (head.contentLength !== undefined) fields.push("Content-Length", String(head.contentLength));
  return fields;
}
