import { requestFields } from "../../core/http/fields.ts";
import type { Head } from "../../core/http/head.ts";
import type { Standing } from "../../core/quota/standing.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { Gateway, Served } from "../exchange/served.ts";
import { traceDigits } from "../trace-ids.ts";

/** An exchange that got this far: its head was judged, its key accepted, its quota charged. */
export type Admitted = {
  readonly gateway: Gateway;
  readonly exchange: Exchange;
  readonly served: Served;
  readonly head: Head;
  /** Forwarded byte for byte as it was matched. */
  readonly target: string;
  readonly account: string;
  readonly plan: string;
  readonly standing: Standing;
};

/**
 * The fields of the request to the backend, flat. The client library reads Content-Length as what
 * the body must come to, and writes the framing itself; Host is its own unless the client's is
 * wanted.
 */
export function outgoingFields({ gateway, exchange, served, head, account, plan }: Admitted) {
  const fields = requestFields(head, {
    requestId: exchange.id,
    account,
    plan,
    random: traceDigits(),
    peer: exchange.peer,
    peerIsTrusted: gateway.isTrusted(exchange.peer),
    scheme: served.certificate === undefined ? "http" : "https",
  });
  if (served.upstreamHost === "client") fields.push("Host", head.host);
  if (head.contentLength !== undefined) fields.push("Content-Length", String(head.contentLength));
  return fields;
}
