import { corsFields, preflightFields } from "../../core/http/cors.ts";
import { rateLimitFields, replacedFields } from "../../core/http/fields.ts";
import { hasBody } from "../../core/http/head.ts";
import { lifecycleFields } from "../../core/http/lifecycle.ts";
import { asksForWebSocket, WEBSOCKET_VERSION } from "../../core/http/websocket.ts";
import { retryAfterSeconds, type Standing } from "../../core/quota/standing.ts";
import {
  closesAfter,
  errorBody,
  fieldsOf,
  type Refusal,
  type RefusalCode,
  type RefusalField,
  statusOf,
} from "../../core/refusal.ts";
import { clientAddress } from "../client/client-address.ts";
import type { Exchange } from "../exchange/exchange.ts";
import type { Gateway } from "../exchange/served.ts";
import { lingerOnClose } from "../node/linger.ts";

const CHALLENGE = 'Bearer realm="tollgate"';
/**
 * An unread body up to this Content-Length is read and the connection kept
 * (docs/reference/edge.md#unread-bodies).
 */
const DISCARD_BYTES_MAX = 65_536;

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
    ...refusalFields(gateway, exchange, refusal.code, { standing, over }),
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

/**
 * Answers `OPTIONS *`, which asks about the gateway itself, without a key and uncharged
 * (docs/reference/edge.md#versions-and-methods).
 */
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
 * Our fields of every response with a head: the three rate limit fields, the request id, the
 * lifecycle, and the end of the connection (docs/reference/http.md#rate-limit-fields).
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
 * which 401s alone are charged to (docs/reference/http.md#failure-allowance).
 */
async function standingFor(gateway: Gateway, exchange: Exchange, code: RefusalCode) {
  if (exchange.standing !== undefined) return { standing: exchange.standing, over: false };
  const nowMs = gateway.now();
  const forwardedFor = exchange.request.headers["x-forwarded-for"]?.toString();
  const client = clientAddress(exchange.peer, forwardedFor, gateway.isTrusted);
  if (statusOf(code) === 401) return gateway.failures.failed(client, nowMs);
  return { standing: await gateway.failures.look(client, nowMs), over: false };
}

type Told = { readonly standing: Standing; readonly over: boolean };

/** The fields of the refusal's row that have a value for this request, flat. */
function refusalFields(
  gateway: Gateway,
  exchange: Exchange,
  code: RefusalCode,
  told: Told,
): string[] {
  const fields: string[] = [];
  for (const name of fieldsOf(code)) {
    const value = fieldValue(name, gateway, exchange, { ...told, code });
    if (value !== undefined) fields.push(name, value);
  }
  return fields;
}

function fieldValue(
  name: RefusalField,
  gateway: Gateway,
  exchange: Exchange,
  { code, standing, over }: Told & { readonly code: RefusalCode },
): string | undefined {
  switch (name) {
    case "WWW-Authenticate":
      return code === "key_missing" ? CHALLENGE : `${CHALLENGE}, error="invalid_token"`;
    case "Allow":
      return (exchange.found?.allow ?? ALL_METHODS).join(", ");
    case "Sec-WebSocket-Version": {
      // RFC 6455 4.4: a client that offered another version learns which one there is.
      const asked = exchange.head !== undefined && asksForWebSocket(exchange.head);
      return asked ? WEBSOCKET_VERSION : undefined;
    }
    case "Retry-After": {
      const status = statusOf(code);
      if (status === 503) return "1";
      if (status === 401 && !over) return undefined;
      const nowMs = status === 401 ? gateway.now() : (exchange.decidedMs as number);
      return String(retryAfterSeconds(standing.resetMs, nowMs));
    }
  }
}

const ALL_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/**
 * Whether the connection must not be used again: the refusal's row says so, or a body stays unread
 * (docs/reference/edge.md#unread-bodies).
 */
function mustClose(gateway: Gateway, exchange: Exchange, code: RefusalCode): boolean {
  if (gateway.draining !== "no" || exchange.broken !== undefined || closesAfter(code)) return true;
  const { head, request } = exchange;
  if (head === undefined || !hasBody(head) || request.complete) return head === undefined;
  return (
    exchange.asksToContinue || head.chunked || (head.contentLength as number) > DISCARD_BYTES_MAX
  );
}
