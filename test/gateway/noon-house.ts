import assert from "node:assert/strict";
import { startTestGateway, type TestGateway } from "../support/gateway/house.ts";
import { KEY } from "../support/gateway/served.ts";
import { errorOf } from "../support/wire/client.ts";
import { onlyValue, type RawResponse } from "../support/wire/response.ts";

export const NOON = Date.UTC(2026, 5, 1, 12);
export const NOON_SECONDS = NOON / 1_000;
/** A key whose plan no configuration has. */
export const GHOST = KEY;

const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
paths:
  /pets:
    get: { operationId: list, responses: {} }
    post: { operationId: create, requestBody: {}, responses: {} }
  /old:
    get:
      operationId: old
      deprecated: true
      x-deprecated-since: "2026-01-01"
      x-sunset: "2026-12-01"
      x-successor: /v1/pets
      responses: {}
  /gone:
    get: { operationId: gone, deprecated: true, x-deprecated-since: "2025-01-01", x-sunset: "2026-01-01", responses: {} }
  /off:
    get: { operationId: off, x-brownouts: ["2026-06-01T12:10Z/1m", "2026-06-01T11:50Z/15m", "2026-06-01T12:05Z/5m"], responses: {} }
  /ending:
    get:
      operationId: ending
      deprecated: true
      x-deprecated-since: "2025-01-01"
      x-sunset: "2026-06-01T12:05:00Z"
      x-brownouts: ["2026-06-01T11:50Z/15m"]
      responses: {}
  /beta:
    get: { operationId: beta, x-stability-level: beta, x-requires-scope: true, responses: {} }
`;

/** A gateway at noon, for ever, with operations in every stage of their life. */
export function openNoonHouse(): Promise<TestGateway> {
  return startTestGateway({
    now: () => NOON,
    files: { "api.yaml": API },
    api: "./api.yaml",
    keys: { [GHOST]: { plan: "ghost" } },
    environment: { hosts: ["gw.test"], limits: { bodyBytes: "1KiB" } },
    config: { unauthenticated: { minute: 1000 } },
  });
}

export type Told = { readonly status: number; readonly code?: string };

/** The status, and for a refusal its Error body; the request has an id in any case. */
export function told({ status, code }: Told, answer: RawResponse): void {
  assert.equal(answer.status, status, answer.body.toString());
  if (code !== undefined) {
    assert.equal(errorOf(answer).code, code);
    assert.equal(onlyValue(answer, "Content-Type"), "application/json");
    assert.equal(onlyValue(answer, "Cache-Control"), "no-store");
  }
  assert.match(onlyValue(answer, "X-Request-Id"), /^[0-9a-f-]{36}$/);
}
