/** Fields that a refusal may have in addition to those of every response; its row names them. */
export type RefusalField = "Allow" | "Retry-After" | "Sec-WebSocket-Version" | "WWW-Authenticate";

/**
 * `closes`: the connection ends with the refusal: nothing behind the request can be parsed or is
 * waited for, or no further request is served.
 * `decides`: the refusal replaces the store's decision (docs/reference/http.md#order), so the log
 * says `refused`. `upstreamFault`: the upstream failed, and the failure is counted. `when` is the
 * cause, in words for people, which `explain` tells as well. `note` is about the answer, and for
 * docs/reference/refusals.md alone, which is made from these rows.
 */
export type RefusalRow = {
  readonly status: number;
  readonly closes: boolean;
  readonly decides?: true;
  readonly upstreamFault?: true;
  readonly fields: readonly RefusalField[];
  readonly message: string;
  readonly when: string;
  readonly note?: string;
};

/**
 * Every refusal of the gateway, one row for each code (docs/reference/http.md#refusals). A new
 * refusal is a new row, never a new class. Refusals are values; only unexpected errors are thrown.
 */
export const REFUSALS = {
  bad_request: {
    status: 400,
    closes: true,
    fields: ["Sec-WebSocket-Version"],
    message: "The request is not well-formed HTTP as this gateway accepts it",
    when: "The head, the target or the body is malformed or ambiguous",
    note: "the field is there where a WebSocket was asked for",
  },
  key_missing: {
    status: 401,
    closes: false,
    fields: ["WWW-Authenticate", "Retry-After"],
    message: "An API key is required: send Authorization: Bearer <API_KEY>",
    when: "There are no credentials",
    note: "Retry-After past the allowance for failed authentications",
  },
  key_invalid: {
    status: 401,
    closes: false,
    fields: ["WWW-Authenticate", "Retry-After"],
    message: "The API key is not valid",
    when: "The credentials are malformed, unknown, revoked, expired or of another environment",
    note: "Retry-After past the allowance",
  },
  account_suspended: {
    status: 403,
    closes: false,
    decides: true,
    fields: [],
    message: "The account of this API key is suspended",
    when: "An operator has suspended the account",
  },
  address_refused: {
    status: 403,
    closes: false,
    fields: [],
    message: "Requests from this address are not accepted",
    when: "The client address is in `deny`, or not in `allow`",
  },
  cost_over_limit: {
    status: 403,
    closes: false,
    decides: true,
    fields: [],
    message: "This operation costs more than the whole limit of a window",
    when: "The operation's cost is above the limit of one of the windows, so that it would never fit",
  },
  meter_missing: {
    status: 403,
    closes: false,
    decides: true,
    fields: [],
    message: "The plan of the account does not include what this operation uses",
    when: "The operation has a meter that the account's plan lacks",
    note: "the message names it",
  },
  scope_required: {
    status: 403,
    closes: false,
    fields: ["WWW-Authenticate"],
    message: "The API key has no scope for this operation",
    when: "The operation asks for scopes that the key does not have",
    note: "the message and `scope` of the field name them",
  },
  not_found: {
    status: 404,
    closes: false,
    fields: [],
    message: "There is no such resource",
    when: "The API description has no such path, or the path is outside basePath",
  },
  method_not_allowed: {
    status: 405,
    closes: false,
    fields: ["Allow"],
    message: "This method is not allowed here: see the Allow field",
    when: "The path is there with other methods only, or the method is CONNECT or TRACE",
  },
  request_timeout: {
    status: 408,
    closes: true,
    fields: [],
    message: "The request did not arrive in time",
    when: "The head, the body or its next piece took too long",
  },
  gone: {
    status: 410,
    closes: false,
    fields: [],
    message: "This operation has been removed",
    when: "The operation's sunset has passed",
    note: "the message names the Link field if the operation has a successor",
  },
  brownout: {
    status: 410,
    closes: false,
    fields: ["Retry-After"],
    message: "This operation is going away, and is switched off for a while as a reminder",
    when: "A brownout of the description, `x-brownouts`, runs",
    note: "one that lasts until the sunset has no `Retry-After`",
  },
  body_too_large: {
    status: 413,
    closes: true,
    fields: [],
    message: "The request body is larger than this gateway accepts",
    when: "The body is over bodyBytes, by its length or as it came, or the extensions of its chunks are over 16 KiB",
    note: "the message names bodyBytes where these are passed",
  },
  uri_too_long: {
    status: 414,
    closes: true,
    fields: [],
    message: "The request target is longer than this gateway accepts",
    when: "The target is over urlBytes",
  },
  expectation_failed: {
    status: 417,
    closes: true,
    fields: [],
    message: "Only the expectation 100-continue is supported",
    when: "Expect says something other than 100-continue",
  },
  misdirected: {
    status: 421,
    closes: false,
    fields: [],
    message: "This gateway does not serve that host here",
    when: "No environment of this listener has the host",
  },
  rate_limited: {
    status: 429,
    closes: false,
    fields: ["Retry-After"],
    message: "Rate limit exceeded: retry after the time in Retry-After",
    when: "A window has no room for the request",
    note: "the message names it: `The day limit, 1000 units, is used up: …`",
  },
  meter_held: {
    status: 429,
    closes: false,
    fields: ["Retry-After"],
    message:
      "Requests of the account that are under way hold what is left: retry when one has ended",
    when: "A meter has no room, and requests of the account that this process has under way hold at least what is missing",
  },
  key_banned: {
    status: 429,
    closes: false,
    fields: ["Retry-After"],
    message: "The API key is banned for a while: retry after the time in Retry-After",
    when: "A ban of the account runs, or this request has earned one",
  },
  too_concurrent: {
    status: 429,
    closes: false,
    decides: true,
    fields: ["Retry-After"],
    message: "The account has as many requests under way as it may: retry when one has ended",
    when: "The account has `concurrent` requests under way in this process",
  },
  headers_too_large: {
    status: 431,
    closes: true,
    fields: [],
    message: "The request header fields are larger than this gateway accepts",
    when: "The header fields are over headerBytes or headerCount, trailers included",
  },
  internal_error: {
    status: 500,
    closes: true,
    fields: [],
    message: "The gateway failed: the request id is in X-Request-Id",
    when: "The gateway has a fault; the log has it under the request id",
  },
  not_implemented: {
    status: 501,
    closes: true,
    fields: [],
    message: "This method or transfer coding is not implemented here",
    when: "The method or the transfer coding is unknown",
  },
  upstream_unreachable: {
    status: 502,
    closes: false,
    upstreamFault: true,
    fields: [],
    message: "The upstream service could not be reached",
    when: "No backend could be connected to, or the connection was lost before a response",
  },
  upstream_invalid: {
    status: 502,
    closes: false,
    upstreamFault: true,
    fields: [],
    message: "The upstream service sent an invalid response",
    when: "The backend's response must not be passed on",
  },
  store_unavailable: {
    status: 503,
    closes: false,
    fields: ["Retry-After"],
    message: "The rate limit store is unavailable: retry shortly",
    when: "The store is away under `onStoreFailure: deny`, this gateway's share of a limit is used up, or there is no copy of the key records yet",
  },
  plan_missing: {
    status: 503,
    closes: false,
    fields: [],
    message: "The plan of this API key is not configured",
    when: "The configuration has no plan of the key's name",
  },
  maintenance: {
    status: 503,
    closes: false,
    fields: ["Retry-After"],
    message: "This service is under maintenance: retry after the time in Retry-After",
    when: "The environment has `maintenance`",
    note: "uncharged, and before the key",
  },
  draining: {
    status: 503,
    closes: true,
    fields: ["Retry-After"],
    message: "This gateway is shutting down: retry shortly",
    when: "The request came after the listeners had closed",
  },
  too_many_tunnels: {
    status: 503,
    closes: false,
    fields: [],
    message: "The API key has as many WebSocket tunnels open as it may",
    when: "The key has tunnelsPerKey tunnels open",
  },
  upstream_timeout: {
    status: 504,
    closes: false,
    upstreamFault: true,
    fields: [],
    message: "The upstream service took too long to answer",
    when: "No response head, or no free connection, came within responseTimeout, or nothing more of a body within idleTimeout",
  },
  http_version: {
    status: 505,
    closes: true,
    fields: [],
    message: "Only HTTP/1.0 and HTTP/1.1 are supported",
    when: "The version is neither HTTP/1.0 nor HTTP/1.1",
  },
  loop_detected: {
    status: 508,
    closes: false,
    fields: [],
    message: "This request has been through this gateway too often",
    when: "Via names this gateway more than three times",
  },
} as const satisfies Record<string, RefusalRow>;
