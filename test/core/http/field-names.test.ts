import assert from "node:assert/strict";
import { it } from "vitest";
import { hasMeaning } from "../../../src/core/http/field-names.ts";

it("fields with a meaning of their own are told from those in which a key may stand", () => {
  for (const name of [
    ...["cookie", "host", "te", "via", "date", "range", "content-type", "if-match", "accept"],
    ...["accept-language", "proxy-authorization", "forwarded", "x-forwarded-for", "x-real-ip"],
    ...["x-request-id", "x-consumer-id", "x-ratelimit-limit", "ratelimit", "ratelimit-policy"],
    ...[
      "sec-websocket-key",
      "access-control-request-headers",
      "cache-control",
      "transfer-encoding",
    ],
    ...["x-http-method-override", "x-original-url", "traceparent", "origin", "user-agent", "close"],
    ...["allow", "authentication-info", "authorization", "connection", "cookie2", "dnt", "etag"],
    ...["early-data", "expect", "expires", "from", "http2-settings", "keep-alive", "last-modified"],
    ...["location", "max-forwards", "mime-version", "pragma", "priority", "referer", "retry-after"],
    ...["server", "set-cookie", "trailer", "upgrade", "vary", "warning", "age", "alt-svc"],
    ...["alt-used", "www-authenticate", "tracestate", "baggage", "link", "deprecation", "sunset"],
  ]) {
    assert.ok(hasMeaning(name), name);
  }
  for (const name of [
    ...["apikey", "api-key", "api_key", "x-api-key", "x-auth-token", "key", "token", "x-token"],
    ...["ocp-apim-subscription-key", "x-goog-api-key", "x-rapidapi-key", "private-token", "x-host"],
    ...["contentkey", "iffy", "x-consumer", "section"],
  ]) {
    assert.ok(!hasMeaning(name), name);
  }
});
