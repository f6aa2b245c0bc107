import { FROM_PROXIES } from "./forwarded-fields.ts";

/**
 * Fields that already carry something else: those of HTTP (RFC 9110, 9111, 9112, 6265, 7239 and the
 * Fetch standard), those that proxies and caches act on, and the gateway's own.
 */
const MEANING: ReadonlySet<string> = new Set([
  ...["accept", "allow", "authentication-info", "authorization", "connection", "cookie", "cookie2"],
  ...["date", "dnt", "early-data", "etag", "expect", "expires", "forwarded", "from", "host"],
  ...["http2-settings", "keep-alive", "last-modified", "location", "max-forwards", "mime-version"],
  ...["origin", "pragma", "priority", "range", "referer", "retry-after", "server", "set-cookie"],
  ...["te", "trailer", "transfer-encoding", "upgrade", "user-agent", "vary", "via", "warning"],
  ...["age", "alt-svc", "alt-used", "cache-control", "close", "www-authenticate"],
  ...["traceparent", "tracestate", "baggage", "link", "deprecation", "sunset"],
  ...FROM_PROXIES,
  ...["x-original-url", "x-rewrite-url"],
  ...["x-http-method-override", "x-http-method", "x-method-override"],
  ...["x-request-id", "x-client-request-id", "x-api-stability"],
]);
const FAMILIES =
  /^(?:accept|access-control|content|if|proxy|sec|ratelimit|x-consumer|x-forwarded|x-ratelimit)-|^ratelimit$/;

/** Whether a field, by its lower-case name, has a meaning already, and so cannot carry a key. */
export function hasMeaning(name: string): boolean {
  return MEANING.has(name) || FAMILIES.test(name);
}
