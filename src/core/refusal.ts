/**
 * Every way the gateway says no: one row per code, contract 4. A new refusal is a new row, never a
 * new class. Refusals are values; only the unexpected throws.
 */
const REFUSALS = {
  bad_request: [400, "The request is not well-formed HTTP as this gateway accepts it"],
  key_missing: [401, "An API key is required: send Authorization: Bearer <API_KEY>"],
  key_invalid: [401, "The API key is not valid"],
  scope_required: [403, "The API key has no scope for this operation"],
  not_found: [404, "There is no such resource"],
  method_not_allowed: [405, "This method is not allowed here: see the Allow field"],
  request_timeout: [408, "The request did not arrive in time"],
  gone: [410, "This operation has been removed: see the Link field for its successor"],
  body_too_large: [413, "The request body is larger than this gateway accepts"],
  uri_too_long: [414, "The request target is longer than this gateway accepts"],
  expectation_failed: [417, "Only the expectation 100-continue is supported"],
  misdirected: [421, "This gateway does not serve that host here"],
  rate_limited: [429, "Rate limit exceeded: retry after the time in Retry-After"],
  key_banned: [429, "The API key is banned for a while: retry after the time in Retry-After"],
  headers_too_large: [431, "The request header fields are larger than this gateway accepts"],
  internal_error: [500, "The gateway failed: the request id is in X-Request-Id"],
  not_implemented: [501, "This method or transfer coding is not implemented here"],
  upstream_unreachable: [502, "The upstream service could not be reached"],
  upstream_invalid: [502, "The upstream service sent an invalid response"],
  store_unavailable: [503, "The rate limit store is unavailable: retry shortly"],
  plan_missing: [503, "The plan of this API key is not configured"],
  draining: [503, "This gateway is shutting down: retry shortly"],
  too_many_tunnels: [503, "The API key has as many WebSocket tunnels open as it may"],
  upstream_timeout: [504, "The upstream service took too long to answer"],
  loop_detected: [508, "This request has been through this gateway too often"],
  http_version: [505, "Only HTTP/1.0 and HTTP/1.1 are supported"],
} as const satisfies Record<string, readonly [status: number, message: string]>;

export type RefusalCode = keyof typeof REFUSALS;

/** `why` goes to the log and never to the client. */
export type Refusal = { readonly code: RefusalCode; readonly why?: string };

/** What every judge in core/ returns: a value to go on with, or one refusal to answer with. */
export type Judged<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly refusal: Refusal };

export function accept<T>(value: T): Judged<T> {
  return { ok: true, value };
}

export function refuse(code: RefusalCode, why?: string): Judged<never> {
  return { ok: false, refusal: why === undefined ? { code } : { code, why } };
}

export function statusOf(code: RefusalCode): number {
  return REFUSALS[code][0];
}

/** The Error shape of spec 2, as bytes for the wire; `status` repeats the HTTP status (spec 7). */
export function errorBody(code: RefusalCode): string {
  return BODIES[code];
}

const BODIES = Object.fromEntries(
  Object.entries(REFUSALS).map(([code, [status, message]]) => [
    code,
    JSON.stringify({ code, message, status }),
  ]),
) as Record<RefusalCode, string>;
