import assert from "node:assert/strict";
import { once } from "node:events";
import { connect } from "node:net";
import { test } from "vitest";
import { startPets } from "../../src/pets/server.ts";
import { eventually } from "../support/poll.ts";
import { sendRaw } from "../support/wire/raw.ts";
import { assertError, openApi } from "./api.ts";

const BODY = '{"name":"Ada","categoryId":1}';
const HEAD = `POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n`;

test("the health check is outside /v1", async (t) => {
  const api = await openApi(t);
  assert.deepEqual((await api.get("/healthz")).json, { status: "ok" });
  assertError(await api.get("/v1/healthz"), 404, "not_found");
});

test("an unknown path is 404, whatever the method and the body", async (t) => {
  const api = await openApi(t);
  const near = ["/v1/pets/", "/v1/pets/1/", "/v1/pets/1/2", "/pets", "/V1/pets", "/v1/Pets"];
  for (const path of ["/", "/v1", "/v1/", "/v2/pets", "/v1/orders", "//v1/pets", ...near]) {
    assertError(await api.get(path), 404, "not_found");
    const text = { body: "x".repeat(100_000), headers: { "content-type": "text/plain" } };
    assertError(await api.call("POST", path, text), 404, "not_found");
  }
});

test("a known path with another method is 405 with Allow, whatever the body", async (t) => {
  const api = await openApi(t);
  const allow = {
    "/v1/pets": "GET, HEAD, POST",
    "/v1/pets/1": "GET, HEAD",
    "/healthz": "GET, HEAD",
  };
  for (const [path, methods] of Object.entries(allow)) {
    for (const method of ["PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND", "POST"]) {
      if (methods.includes(method)) continue;
      const body = method === "OPTIONS" ? null : "x".repeat(100_000);
      const answer = await api.call(method, `${path}?limit=0`, { body });
      assertError(answer, 405, "method_not_allowed");
      assert.equal(answer.headers.get("allow"), methods);
    }
  }
});

test("a known path in another spelling is known to every method", async (t) => {
  const api = await openApi(t);
  const spelled = ["/v1/%70ets", "/healt%68z", "/v1/pets#a", "/v1/pets#?a"];
  const unlike = ["/v1/%70ets/", "/v1%2Fpets", "/v1/%2570ets", "/v1/pets%3Fa"];
  for (const path of [...spelled, ...unlike]) {
    const known = spelled.includes(path);
    for (const method of ["GET", "DELETE", "OPTIONS"]) {
      const head = `${method} ${path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n`;
      const answer = (await sendRaw(api.port, [head])).bytes.toString();
      const status = known ? ({ GET: 200 }[method] ?? 405) : 404;
      assert.match(answer, new RegExp(`^HTTP/1.1 ${status} `), `${method} ${path}`);
      assert.equal(/\r\nallow: GET, HEAD/i.test(answer), status === 405);
    }
  }
});

test("a path that is not well escaped is 400", async (t) => {
  const api = await openApi(t);
  const among = ["/v1/%70ets/%zz", "/v1/pets/%2F%", "/v1/pets/%25%ff"];
  for (const path of ["/v1/pets/%zz", "/v1/pets/%", "/%ff", "/v1/pets/%c3", ...among]) {
    assertError(await api.get(path), 400, "invalid_request");
    assertError(await api.call("DELETE", path, {}), 400, "invalid_request");
  }
});

test("what is not HTTP gets an Error too, and the connection is closed", async (t) => {
  const api = await openApi(t);
  const long = `GET /healthz HTTP/1.1\r\nHost: a\r\nX: ${"x".repeat(20_000)}\r\n\r\n`;
  for (const [bytes, status, code] of [
    ["hello\r\n\r\n", 400, "invalid_request"],
    ["FOO /v1/pets HTTP/1.1\r\nHost: a\r\n\r\n", 400, "invalid_request"],
    [`${HEAD}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n`, 400, "invalid_request"],
    [long, 431, "headers_too_large"],
    ["GET /v1/pets HTTP/1.1\r\n\r\n", 400, "invalid_request"],
    ["GET /v1/pets HTTP/1.1\r\nHost: a\r\nExpect: foo\r\n\r\n", 417, "expectation_failed"],
  ] as const) {
    const answer = (await sendRaw(api.port, [bytes])).bytes.toString();
    assert.match(answer, new RegExp(`^HTTP/1.1 ${status} `));
    assert.match(answer, /\r\nconnection: close\r\n/i);
    const error = JSON.parse(/\{.*\}/s.exec(answer)?.[0] ?? "");
    assert.deepEqual([error.code, error.status], [code, status]);
  }
});

test("an idle connection is kept for 65 s, so that a proxy in front closes first", async (t) => {
  const api = await openApi(t);
  const head = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
  const { bytes } = await sendRaw(api.port, [head], { methods: ["GET"] });
  assert.match(bytes.toString(), /\r\nKeep-Alive: timeout=65\r\n/i);
});

test("a client that leaves in the middle of a body harms nobody", async (t) => {
  const api = await openApi(t);
  for (let i = 0; i < 20; i++) {
    const socket = connect(api.port, "127.0.0.1");
    await once(socket, "connect");
    socket.write(`${HEAD}Content-Length: 1000\r\n\r\n${BODY}`);
    socket.resetAndDestroy();
  }
  assert.equal((await api.get("/v1/pets")).text, "[]");
});

/** A create whose head the server has read, and whose body it waits for. */
async function halfSent(port: number) {
  const socket = connect(port, "127.0.0.1");
  const seen = { answer: "" };
  socket.on("data", (chunk) => {
    seen.answer += chunk;
  });
  socket.on("error", () => {});
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  socket.write(`${HEAD}Expect: 100-continue\r\nContent-Length: ${BODY.length}\r\n\r\n`);
  await eventually(() => seen.answer.startsWith("HTTP/1.1 100 "));
  return { socket, seen, closed };
}

test("stop serves what is under way and refuses new connections", async () => {
  const pets = await startPets({ host: "127.0.0.1", port: 0 });
  const { socket, seen, closed } = await halfSent(pets.port);
  const stopped = pets.stop();
  await eventually(() => assert.rejects(fetch(`${pets.url}/healthz`)));
  socket.write(BODY);
  await Promise.all([stopped, closed, pets.stop()]);
  assert.match(seen.answer, /HTTP\/1\.1 201 Created\r\n/);
  assert.match(seen.answer, /connection: close\r\n/i);
  assert.ok(seen.answer.endsWith('{"id":1,"name":"Ada","categoryId":1}'));
});

test("stop waits for a body that never comes, but not for long", async () => {
  const pets = await startPets({ host: "127.0.0.1", port: 0 });
  const { closed } = await halfSent(pets.port);
  const startMs = performance.now();
  await Promise.all([pets.stop(), closed]);
  const tookMs = performance.now() - startMs;
  assert.ok(tookMs > 4_000 && tookMs < 20_000, `${tookMs} ms`);
});

test("a port in use rejects with the system's code", async (t) => {
  const api = await openApi(t);
  await assert.rejects(startPets({ host: "127.0.0.1", port: api.port }), { code: "EADDRINUSE" });
});
