import { DISCARD_BYTES_MAX } from "../../base/linger.ts";
import { preflightFields } from "../../core/http/cors.ts";
import {
  fieldsWithoutId,
  followFromStanding,
  gatewayFields,
} from "../../core/http/gateway-fields.ts";
import { hasBody } from "../../core/http/head.ts";
import { allowanceRateLimit } from "../../core/http/rate-limit-fields.ts";
import { METHODS } from "../../core/http/route.ts";
import { WEBSOCKET_VERSION } from "../../core/http/websocket.ts";
import { type RateLimitInfo, retryAfterSeconds } from "../../core/quota/rate-limit-info.ts";
import {
  closesAfter,
  errorBody,
  errorMediaType,
  type Refusal,
  type RefusalCode,
  type ResponseParts,
  refusalFieldNames,
  statusOf,
} from "../../core/refusal.ts";
import type { RefusalField } from "../../core/refusal-table.ts";
import { encodeFields } from "../../http1/write/message-writer.ts";
import type { GatewayContext } from "../exchange/environment.ts";
import type { Exchange } from "../exchange/exchange.ts";

const CHALLENGE = 'Bearer realm="tollgate"';
/** Seconds. A hint for refusals without a known time (docs/reference/http.md#retry-after). */
const RETRY_SHORTLY = "1";

/**
 * Answers a request with a refusal: at once, unless a standing must be learnt first. Then it returns
 * a promise.
 */
export function sendRefusal(
  gateway: GatewayContext,
  exchange: Exchange,
  refusal: Refusal,
): Promise<void> | undefined {
  exchange.refuse(refusal);
  if (exchange.rateLimitInfo !== undefined) {
    writeRefusal(gateway, exchange, refusal, false);
    return undefined;
  }
  const learning = learnStanding(gateway, exchange, statusOf(refusal.code) === 401);
  return learning.then((over) => writeRefusal(gateway, exchange, refusal, over));
}

/** Writes a refusal; the only place that writes an error body. */
function writeRefusal(
  gateway: GatewayContext,
  exchange: Exchange,
  refusal: Refusal,
  over: boolean,
): void {
  if (exchange.response.headWritten || exchange.socket.destroyed) return;

  if (over || mustClose(exchange, refusal.code)) exchange.closeAfter();
  closeIfDraining(gateway, exchange);
  const { body, bodyBytes: length, ahead, behind } = responseParts(gateway, exchange, refusal);
  const own: string[] = [];
  for (const name of refusalFieldNames(refusal.code)) {
    const value = fieldValue(name, gateway, exchange, { refusal, over });
    if (value !== undefined) own.push(name, value);
  }
  own.push("X-Request-Id", exchange.id);
  const lines = ahead + encodeFields(own) + behind;
  exchange.response.writeEncodedHead(statusOf(refusal.code), lines, { length, dated: false });
  exchange.response.end(body);
}

/** Kept with a refusal that is repeated, as far as nothing but the account decides them. */
function responseParts(
  { style: { errors } }: GatewayContext,
  exchange: Exchange,
  refusal: Refusal,
): ResponseParts {
  const { repeated } = refusal;
  const isKept = repeated !== undefined && followFromStanding(exchange);
  if (isKept && repeated.parts?.errors === errors) return repeated.parts;
  const body = errorBody(refusal, errors);
  const bodyBytes = Buffer.byteLength(body);
  const ahead = encodeFields([
    ...["Content-Type", errorMediaType(errors), "Content-Length", String(bodyBytes)],
    ...["Cache-Control", "no-store"],
  ]);
  const behind = encodeFields(fieldsWithoutId(exchange));
  const parts = { errors, body, bodyBytes, ahead, behind };
  if (isKept) repeated.parts = parts;
  return parts;
}

/**
 * Ends an exchange that failed on its way to an upstream or back. Forwards and tunnels both end
 * here. The request is refused if no status has been sent. After that the only honest signal left
 * is a connection that ends too soon.
 */
export function failExchange(gateway: GatewayContext, exchange: Exchange, refusal: Refusal): void {
  exchange.settle(gateway.elapsed());
  if (exchange.response.headWritten) {
    exchange.setReason(refusal.why);
    exchange.response.cut();
  } else if (!exchange.socket.destroyed) {
    void sendRefusal(gateway, exchange, refusal);
  } else {
    exchange.setReason(refusal.why);
  }
}

/**
 * While the gateway drains, the last response of a connection says so. Called before each head is
 * written.
 */
export function closeIfDraining({ draining }: GatewayContext, exchange: Exchange): void {
  if (draining !== "no" && exchange.isLast) exchange.closeAfter();
}

/**
 * Answers an OPTIONS that asks about the gateway itself, with the methods that it allows:
 * `OPTIONS *`, which needs no key and is not charged, and one that may be forwarded no further
 * (docs/reference/edge.md#versions-and-methods).
 */
export async function sendOptions(
  gateway: GatewayContext,
  exchange: Exchange,
  allow: readonly string[] = METHODS,
): Promise<void> {
  await learnStanding(gateway, exchange, false);
  closeIfDraining(gateway, exchange);
  const fields = ["Allow", allow.join(", "), "Cache-Control", "no-store"];
  exchange.response.writeHead(204, [...fields, ...gatewayFields(exchange)]);
  exchange.response.end();
}

/** Answers a preflight. A browser sends it, it is no call of the API: no key, no charge. */
export async function sendPreflight(gateway: GatewayContext, exchange: Exchange): Promise<void> {
  const { cors, origin, response } = exchange;
  await learnStanding(gateway, exchange, false);
  closeIfDraining(gateway, exchange);
  const fields = ["Cache-Control", "no-store", ...gatewayFields(exchange)];
  if (cors !== undefined) fields.push(...preflightFields(cors, origin));
  response.writeHead(204, fields);
  response.end();
}

/**
 * Without an accepted key, the standing is that of the address's failure allowance. Only 401s are
 * charged to it (docs/reference/http.md#failure-allowance). Returns true if the allowance is used
 * up.
 */
async function learnStanding(gateway: GatewayContext, exchange: Exchange, failed: boolean) {
  if (exchange.rateLimitInfo !== undefined) return false;
  const nowMs = gateway.now();
  const { client } = exchange.arrival;
  if (!failed) {
    standByAllowance(gateway, exchange, await gateway.failures.peek(client, nowMs), nowMs);
    return false;
  }
  const { rateLimitInfo, over } = await gateway.failures.consume(client, nowMs);
  standByAllowance(gateway, exchange, rateLimitInfo, nowMs);
  return over;
}

function standByAllowance(
  { style, failures }: GatewayContext,
  exchange: Exchange,
  rateLimitInfo: RateLimitInfo,
  nowMs: number,
): void {
  exchange.setRateLimitInfo(rateLimitInfo);
  if (style.rateLimitFields === "ietf")
    exchange.setRateLimit(allowanceRateLimit(rateLimitInfo, failures.window, nowMs));
}

type RefusedResponse = { readonly refusal: Refusal; readonly over: boolean };

function fieldValue(
  name: RefusalField,
  gateway: GatewayContext,
  exchange: Exchange,
  { refusal, over }: RefusedResponse,
): string | undefined {
  switch (name) {
    case "WWW-Authenticate":
      return challenge(refusal);
    case "Allow":
      return (exchange.found?.allowedMethods ?? METHODS).join(", ");
    case "Sec-WebSocket-Version": {
      // RFC 6455 4.4: a client that offered another version learns the supported one.
      const asked = exchange.head !== undefined && exchange.arrival.upgrade !== undefined;
      return asked ? WEBSOCKET_VERSION : undefined;
    }
    case "Retry-After": {
      if (statusOf(refusal.code) === 401 && !over) return undefined;
      if (refusal.retryAfterSeconds !== undefined) return String(refusal.retryAfterSeconds);
      if (refusal.code === "brownout") return undefined;
      if (!over && refusal.code !== "rate_limited" && refusal.code !== "key_banned") {
        return RETRY_SHORTLY;
      }
      const nowMs = over ? gateway.now() : (exchange.decision?.decidedMs as number);
      return String(retryAfterSeconds((exchange.rateLimitInfo as RateLimitInfo).resetMs, nowMs));
    }
  }
}

/** RFC 6750 3: no error code if there were no credentials. */
function challenge({ code, scope }: Refusal): string | undefined {
  if (code === "key_missing") return CHALLENGE;
  if (code === "key_invalid") return `${CHALLENGE}, error="invalid_token"`;
  return scope && `${CHALLENGE}, error="insufficient_scope", scope="${scope}"`;
}

/**
 * Whether the connection must not be reused: the refusal's row says so, or the body stays unread
 * (docs/reference/edge.md#unread-bodies).
 */
function mustClose(exchange: Exchange, code: RefusalCode): boolean {
  if (exchange.requestError !== undefined || closesAfter(code)) return true;
  const { head, request } = exchange;
  if (head === undefined || !hasBody(head) || request.complete) return head === undefined;
  return head.expectsContinue || head.framing === "chunked" || head.framing > DISCARD_BYTES_MAX;
}
