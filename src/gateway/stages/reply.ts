import { corsFields, preflightFields } from "../../core/http/cors.ts";
import { rateLimitFields, replacedFields, retryAfterField } from "../../core/http/fields.ts";
import { hasBody } from "../../core/http/head.ts";
import { lifecycleFields } from "../../core/http/lifecycle.ts";
import { asksForWebSocket, WEBSOCKET_VERSION } from "../../core/http/websocket.ts";
import type { Standing } from "../../core/quota/standing.ts";
import { errorBody, type Refusal, type RefusalCode, statusOf } from "../../core/refusal.ts";
import { clientAddress } from "../client/client-address.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { Gateway } from "../exchange/served.ts";
import { lingerOnClose } from "../node/linger.ts";

const CHALLENGE = 'Bearer realm="tollgate"';
/** An unread body up to this, by Content-Length, is read and the connection kept (edge.md). */
const DISCARD_BYTES_MAX = 65_536;

/** After these the framing itself is not to be believed, so neither is what follows. */
const FRAMING: ReadonlySet<RefusalCode> = new Set([
  "bad_request",
  "request_timeout",
  "body_too_large",
  "uri_too_long",
  "expectation_failed",
  "headers_too_large",
  "not_implemented",
  "http_version",
  "internal_error",
]);

/** Answers a request with a refusal; the only place that writes an error body. */
export async function sendRefusal(
  gateway: Gateway,
  exchange: Exchange,
  refusal: Refusal,
): Promise<void> {
  exchange.code = refusal.code;
  exchange.why ??= refusal.why;
  const { standing, over } = await standingFor(gateway, exchange, refusal.code);
  if (exchange.response.headersSent || exchange.socket.destroyed) return;

  const body = errorBody(refusal.code);
  const fields = [
    "Content-Type",
    "application/json",
    "Content-Length",
    String(Buffer.byteLength(body)),
    "Cache-Control",
    "no-store",
    ...refusalFields(gateway, exchange, refusal.code, standing, over),
  ];
  exchange.last ||= over || mustClose(gateway, exchange, refusal.code);
  fields.push(...commonFields(exchange, standing));
  if (exchange.last) {
    const bytesMax = exchange.served?.limits.bodyBytes ?? DISCARD_BYTES_MAX;
    lingerOnClose(exchange.socket, exchange.request, bytesMax);
  }
  // A body that is kept out still has to be read past, or the next request never comes.
  if (!exchange.request.complete) exchange.request.resume();
  exchange.response.writeHead(statusOf(refusal.code), fields);
  exchange.response.end(body);
}

/** `OPTIONS *` is about the gateway itself: answered here, without a key and uncharged (edge.md). */
export async function sendServerOptions(gateway: Gateway, exchange: Exchange): Promise<void> {
  const { standing } = await standingFor(gateway, exchange, "not_found");
  const fields = ["Allow", ALL_METHODS.join(", "), "Cache-Control", "no-store"];
  exchange.response.writeHead(204, [...fields, ...commonFields(exchange, standing)]);
  exchange.response.end();
}

/** A preflight is a browser's question, and no call of the API: no key, no charge. */
export async function sendPreflight(gateway: Gateway, exchange: Exchange): Promise<void> {
  const { cors, request, response } = exchange;
  const { standing } = await standingFor(gateway, exchange, "not_found");
  const fields = ["Cache-Control", "no-store", ...commonFields(exchange, standing)];
  if (cors !== undefined) fields.push(...preflightFields(cors, request.headers.origin));
  response.writeHead(204, fields);
  response.end();
}

/** The backend's fields that ours take the place of. */
export function replacedFor({ found, cors }: Exchange): ReadonlySet<string> {
  const announced = found?.operation?.lifecycle.deprecated === true;
  return replacedFields({ announced, cors: cors !== undefined });
}

/**
 * Our fields of every response with a head: the three of spec 8.1, the id, the lifecycle, and the
 * end of the connection.
 */
export function commonFields(exchange: Exchange, standing: Standing): string[] {
  const fields = ["X-Request-Id", exchange.id, ...rateLimitFields(standing)];
  if (exchange.last) fields.push("Connection", "close");
  if (exchange.policy !== undefined) fields.push("RateLimit-Policy", exchange.policy);
  const lifecycle = exchange.found?.operation?.lifecycle;
  if (lifecycle !== undefined) fields.push(...lifecycleFields(lifecycle));
  const { cors, request } = exchange;
  if (cors !== undefined) fields.push(...corsFields(cors, request.headers.origin));
  return fields;
}

/**
 * The account's standing where a key was accepted; else that of the address's failure allowance,
 * which 401s alone are charged to (contract 5).
 */
async function standingFor(gateway: Gateway, exchange: Exchange, code: RefusalCode) {
  if (exchange.standing !== undefined) return { standing: exchange.standing, over: false };
  const nowMs = gateway.now();
  const forwardedFor = exchange.request.headers["x-forwarded-for"]?.toString();
  const client = clientAddress(exchange.peer, forwardedFor, gateway.isTrusted);
  if (statusOf(code) === 401) return gateway.failures.failed(client, nowMs);
  return { standing: await gateway.failures.look(client, nowMs), over: false };
}

function refusalFields(
  gateway: Gateway,
  exchange: Exchange,
  code: RefusalCode,
  standing: Standing,
  over: boolean,
): string[] {
  switch (code) {
    case "key_missing":
      return ["WWW-Authenticate", CHALLENGE, ...overFields(gateway, standing, over)];
    case "key_invalid": {
      const challenge = `${CHALLENGE}, error="invalid_token"`;
      return ["WWW-Authenticate", challenge, ...overFields(gateway, standing, over)];
    }
    case "bad_request":
      // RFC 6455 4.4: a client that offered another version learns which one there is.
      return exchange.head !== undefined && asksForWebSocket(exchange.head)
        ? ["Sec-WebSocket-Version", WEBSOCKET_VERSION]
        : [];
    case "rate_limited":
    case "key_banned":
      return retryAfterField(standing, exchange.decidedMs as number);
    case "method_not_allowed":
      return ["Allow", (exchange.found?.allow ?? ALL_METHODS).join(", ")];
    case "store_unavailable":
    case "draining":
      return ["Retry-After", "1"];
    default:
      return [];
  }
}

const ALL_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

function overFields(gateway: Gateway, standing: Standing, over: boolean): string[] {
  return over ? retryAfterField(standing, gateway.now()) : [];
}

/** Whether the connection must not be used again: see FRAMING, and edge.md on unread bodies. */
function mustClose(gateway: Gateway, exchange: Exchange, code: RefusalCode): boolean {
  if (gateway.draining !== "no" || exchange.broken !== undefined || FRAMING.has(code)) return true;
  const { head, request } = exchange;
  if (head === undefined || !hasBody(head) || request.complete) return head === undefined;
  return (
    exchange.asksToContinue || head.chunked || (head.contentLength as number) > DISCARD_BYTES_MAX
  );
}
