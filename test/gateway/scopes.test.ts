import assert from "node:assert/strict";
import { test } from "vitest";
import { startTestGateway } from "../support/gateway/house.ts";
import { errorOf, rateLimitFieldsOf, sendRequest } from "../support/wire/client.ts";
import { onlyValue } from "../support/wire/response.ts";

/** A noon that does not move: no minute ends between two requests. */
const NOON = Date.UTC(2026, 5, 1, 12);
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
  await using house = await startTestGateway({
    now: () => NOON,
    files: { "api.yaml": API },
    api: "./api.yaml",
  });
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

const KEYED = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
components:
  securitySchemes:
    field: { type: apiKey, in: header, name: Api-Key }
    other: { type: apiKey, in: header, name: x-other }
paths:
  /orders:
    get: { operationId: orders, security: [{ field: [] }, { other: [] }], responses: {} }
    put: { operationId: put, security: [{ field: ["orders:write"] }], responses: {} }
`;

test("security: an apiKey scheme is met by a key in a field of keyHeaders, whatever the field is called", async () => {
  await using house = await startTestGateway({
    files: { "api.yaml": KEYED },
    api: "./api.yaml",
    config: { keyHeaders: ["apikey", "api-key", "api_key", "key"] },
  });
  const { key } = await house.issue();
  const ask = (name: string, method = "GET") =>
    sendRequest(house.port, { method, path: "/v1/orders", fields: [[name, key]] });
  for (const name of ["apikey", "Api-Key", "API_KEY", "Key"]) {
    assert.equal((await ask(name)).status, 200, name);
    const seen = house.backend.seen.at(-1);
    assert.ok(!JSON.stringify(seen?.rawHeaders).includes(key), "the key stays here");
  }
  assert.equal(errorOf(await ask("x-other")).code, "key_missing");
  assert.equal(errorOf(await ask("Authorization")).code, "key_missing");
  assert.equal(errorOf(await ask("api-key", "PUT")).code, "scope_required");
  const scoped = await house.issue({ scopes: ["orders:write"] });
  const fields = [["Api-Key", scoped.key]] as const;
  const put = await sendRequest(house.port, { method: "PUT", path: "/v1/orders", fields });
  assert.equal(put.status, 200);
  await house.law();
});
