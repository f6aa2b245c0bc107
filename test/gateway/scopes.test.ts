import assert from "node:assert/strict";
import { test } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { errorOf, rateLimitFieldsOf, sendRequest } from "../support/wire/client.ts";
import { onlyValue } from "../support/wire/response.ts";

const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
security: [{ token: [] }]
components:
  securitySchemes:
    token: { type: http, scheme: bearer }
    oauth: { type: oauth2, flows: {} }
    basic: { type: http, scheme: basic }
paths:
  /open:
    get: { operationId: open, responses: {} }
  /orders:
    get:
      operationId: orders
      security: [{ oauth: [orders:read] }, { token: [admin], oauth: [all] }, { basic: [] }]
      responses: {}
  /beta:
    get: { operationId: beta, x-stability-level: beta, x-requires-scope: true, responses: {} }
`;

test("security: a key without the scopes of one alternative is 403, charged, and told which", async () => {
  await using house = await startTestGateway({ files: { "api.yaml": API }, api: "./api.yaml" });
  const none = await house.issue();
  assert.equal((await sendRequest(house.port, { key: none.key, path: "/v1/open" })).status, 200);
  const answer = await sendRequest(house.port, { key: none.key, path: "/v1/orders" });
  const { code, message } = errorOf(answer);
  assert.deepEqual([answer.status, code], [403, "scope_required"]);
  assert.equal(
    message,
    "The API key needs the scopes orders:read, or admin and all for this operation",
  );
  assert.equal(
    onlyValue(answer, "WWW-Authenticate"),
    'Bearer realm="tollgate", error="insufficient_scope", scope="orders:read"',
  );
  assert.equal(rateLimitFieldsOf(answer).remaining, 58, "refused from step 4 on: charged");

  for (const [scopes, status] of [
    [["orders:read"], 200],
    [["admin", "all"], 200],
    [["admin"], 403],
    [["orders"], 403],
  ] as const) {
    const { key } = await house.issue({ scopes });
    assert.equal((await sendRequest(house.port, { key, path: "/v1/orders" })).status, status);
  }
  const beta = await sendRequest(house.port, { key: none.key, path: "/v1/beta" });
  assert.match(onlyValue(beta, "WWW-Authenticate") ?? "", /scope="beta"$/);
  assert.match(errorOf(beta).message, /needs the scope beta/);
  await house.law();
});
