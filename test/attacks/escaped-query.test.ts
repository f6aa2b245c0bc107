import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { KEY } from "../support/gateway/served.ts";
import { sendRequest } from "../support/wire/client.ts";
import { openAttacked } from "./attacked.ts";
import { type OperationName, startH3, TEMPLATES } from "./real-routers.ts";

/** The operations that cost more than 1. */
const COSTS: Partial<Record<OperationName, number>> = { secret: 100, list: 5, user: 7 };

const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
security: [{ token: [] }]
components: { securitySchemes: { token: { type: http, scheme: bearer } } }
paths:
${Object.entries(TEMPLATES)
  .map(([name, template]) => {
    const security = name === "secret" ? "" : "security: [], ";
    const rest = `x-cost: ${COSTS[name as OperationName] ?? 1}, ${security}responses: {}`;
    return `  ${template.slice("/v1".length)}: { get: { operationId: ${name}, ${rest} } }\n`;
  })
  .join("")}`;

/** The status without a key, or the operation that the router finds. */
const ANSWERS: Readonly<Record<string, number | OperationName>> = {
  "files/secret": 401,
  "files/secret%3F": 400,
  "files/secret%3fadmin=1": 400,
  "files/%73ecret%3F?a=b": 400,
  "files/list.json%3F": 400,
  "files/secret%23": 400,
  "files/secret%23a%3F": 400,
  "files/x%23": "file",
  "files/list.json": "list",
  "files/x%3F": "file",
  "files/x?secret%3F": "file",
  "users/7%3F/keys": 400,
  "users/all%3F": "all",
};

describe("a router that decodes a path before it looks for its end", () => {
  for (const paths of ["exact", "loose"] as const) {
    it(`serves no operation for less than it asks for, with paths: ${paths}`, async () => {
      await using router = await startH3();
      const { origin, seen } = router;
      await using house = await openAttacked({
        api: "./api.yaml",
        files: { "api.yaml": API },
        config: { plans: { enterprise: "custom", open: { hour: 10_000 } } },
        environment: { paths, public: "open" },
        upstream: { origin, seen, close: async () => undefined },
      });
      for (const [path, expected] of Object.entries(ANSWERS)) {
        const { status, body } = await sendRequest(house.port, { path: `/v1/${path}` });
        const served = status === 200 ? body.toString() : status;
        assert.equal(served, expected, path);
      }
      const { status } = await sendRequest(house.port, { path: "/v1/files/secret%3F", key: KEY });
      assert.equal(status, 400, "its cost is that of the template to a key too");
      await house.law();
    });
  }
});
