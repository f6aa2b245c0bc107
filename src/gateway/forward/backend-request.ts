import { randomFillSync } from "node:crypto";
import { requestFields } from "../../core/http/fields.ts";
import type { Head } from "../../core/http/head.ts";
import type { Standing } from "../../core/quota/standing.ts";
import type { Exchange } from "../exchange/exchange.ts";
import { type Gateway, type Served, schemeOf } from "../exchange/served.ts";

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
    peer: exchange.arrival.peer,
    peerIsTrusted: gateway.isTrusted(exchange.arrival.peer),
    scheme: schemeOf(served),
  });
  if (served.upstreamHost === "client") fields.push("Host", head.host);
  if (head.contentLength !== undefined) fields.push("Content-Length", String(head.contentLength));
  return fields;
}

/** Hexadecimal digits of a trace id and a parent id. */
const DIGITS = 48;
const AT_ONCE = 256;

const bytes = Buffer.alloc((DIGITS / 2) * AT_ONCE);
let digits = "";
let used = AT_ONCE;

/** 48 random hexadecimal digits, taken from a stock: a call for each request costs ten times more. */
function traceDigits(): string {
  if (used === AT_ONCE) {
    digits = randomFillSync(bytes).toString("hex");
    used = 0;
  }
  used += 1;
  return digits.slice((used - 1) * DIGITS, used * DIGITS);
}
