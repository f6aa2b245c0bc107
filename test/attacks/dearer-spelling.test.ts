import assert from "node:assert/strict";
import Fastify from "fastify";
import { afterAll, describe, it } from "vitest";
import { KEY } from "../support/gateway/served.ts";
import { eventually } from "../support/poll.ts";
import { errorOf, sendRequest } from "../support/wire/client.ts";
import { onlyValue } from "../support/wire/response.ts";
import { openAttacked } from "./attacked.ts";

const API = `openapi: 3.1.0
info: { title: t, version: 1.0.0 }
security: [{ token: [] }]
components: { securitySchemes: { token: { type: http, scheme: bearer } } }
paths:
  /files/pub: { get: { security: [], x-cost: 0, responses: {} } }
  /files/own: { get: { security: [{ token: [own] }], responses: {} } }
  /files/{name}: { get: { x-cost: 7, responses: {} } }
`;

/** A router that heeds case, a slash at the end and what follows ";", as wildcards of servlets do. */
async function startRouter() {
  const app = Fastify();
  const seen: string[] = [];
  app.addHook("onRequest", async ({ url }) => void seen.push(url));
  for (const name of ["pub", "own"]) app.get(`/v1/files/${name}`, () => name);
  app.get("/v1/files/*", () => "any");
  app.get("/*", () => "none");
  const origin = await app.listen({ port: 0, host: "127.0.0.1" });
  return { app, origin, seen };
}

const router = await startRouter();
const upstreams = [router.origin];
const house = await openAttacked({
  api: "./api.yaml",
  files: { "api.yaml": API },
  config: { plans: { enterprise: "custom", open: { hour: 10_000 } } },
  environment: { paths: "loose", public: "open", upstreams },
});
const raw = await openAttacked({
  environment: {
    ...{ api: null, paths: "loose", upstreams },
    costs: [
      { match: "GET /v1/files/pub", cost: 0 },
      { match: "GET /v1/files/{name}", cost: 7 },
    ],
  },
});
afterAll(async () => {
  for (const one of [house, raw]) await one[Symbol.asyncDispose]();
  await router.app.close();
});

/** The code of a refusal or the operation that the backend served, and the charge. */
async function ask(path: string, key: string | null = KEY, at = house) {
  const answer = await sendRequest(at.port, { method: "GET", path, ...(key !== null && { key }) });
  const id = onlyValue(answer, "X-Request-Id");
  const line = await eventually(() => at.lines.find((one) => one.id === id) ?? false);
  assert.ok(line);
  const told = answer.status === 200 ? answer.body.toString() : errorOf(answer).code;
  return [told, line.charged];
}

const SPELLINGS = ["PUB", "pub/", "pub;", "pub;x", "Pub;x/", "%50ub"];

describe("with paths: loose, another spelling of a cheap path that a template has for more", () => {
  it("does not reach the operation of the template without its key", async () => {
    const before = router.seen.length;
    for (const name of SPELLINGS) {
      assert.deepEqual(await ask(`/v1/files/${name}`, null), ["key_missing", 0], name);
    }
    assert.equal(router.seen.length, before);
  });

  it("is charged as the template, with a description and without", async () => {
    for (const name of SPELLINGS) {
      assert.deepEqual(await ask(`/v1/files/${name}`), ["any", 7], name);
      assert.deepEqual(await ask(`/v1/files/${name}`, KEY, raw), ["any", 7], name);
    }
  });

  it("is refused if the path itself asks for something that the template does not", async () => {
    assert.deepEqual(await ask("/v1/files/OWN"), ["bad_request", 0]);
    assert.deepEqual(await ask("/v1/files/own"), ["scope_required", 1]);
    const { message } = errorOf(await sendRequest(house.port, { path: "/v1/files/OWN", key: KEY }));
    assert.match(message, /write it as the description of the API does/);
  });

  it("leaves the path itself as it is, also where only other segments are spelled otherwise", async () => {
    for (const path of ["/v1/files/pub", "/v1/files/p%75b", "/v1/files/pub?X=;/"]) {
      assert.deepEqual(await ask(path, null), ["pub", 0], path);
      assert.deepEqual(await ask(path, KEY, raw), ["pub", 0], path);
    }
    assert.deepEqual(await ask("/V1;x/Files/pub"), ["none", 0], "as such a router reads it");
  });

  it("reaches the backend as often as the log says", () => {
    const lines = [house, raw].flatMap((one) => one.lines);
    const forwarded = lines.reduce((sum, { forwards }) => sum + forwards, 0);
    assert.equal(router.seen.length, forwarded);
  });
});
