import assert from "node:assert/strict";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import type { Server } from "node:http";
import { connect } from "node:net";
import { setImmediate } from "node:timers/promises";
import { describe, it } from "vitest";
import { each } from "../support/each.ts";
import { sendRaw } from "../support/wire/raw.ts";
import { type AdminHouse, ALL_WELL, openAdminHouse } from "./admin-house.ts";

describe("the open endpoints", () => {
  it("answer without a token, GET and HEAD alike", async () => {
    await using house = await openAdminHouse();
    const types = {
      "/": "text/html; charset=utf-8",
      "/livez": "text/plain; charset=utf-8",
      "/readyz": "application/json",
      "/metrics": "text/plain; version=0.0.4; charset=utf-8",
    };
    for (const [path, type] of Object.entries(types)) {
      const got = await house.ask("GET", path, { token: "" });
      assert.equal(got.status, 200, path);
      assert.equal(got.fields["content-type"], type);
      assert.ok(got.text.length > 0);
      const head = await house.ask("HEAD", path, { token: "" });
      assert.equal(head.status, 200);
      assert.equal(head.text, "");
      assert.equal(head.fields["content-type"], type);
    }
  });

  it("refuse every other method with 405 and Allow", async () => {
    await using house = await openAdminHouse();
    for (const method of ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"]) {
      const got = await house.ask(method, "/livez");
      assert.equal(got.status, 405);
      assert.equal(got.fields.allow, "GET, HEAD");
      const { code, message } = got.json();
      assert.deepEqual([code, message], ["method_not_allowed", "Here the methods are GET, HEAD"]);
    }
  });

  it("answer whatever name a scraper uses, with a query too", async () => {
    await using house = await openAdminHouse();
    const fields = { Host: "tollgate.internal" };
    assert.equal((await house.ask("GET", "/metrics?x=1", { token: "", fields })).status, 200);
  });

  it("say 404 in the Error shape for what is not there", async () => {
    await using house = await openAdminHouse();
    for (const path of ["/nothing", "/readyz/", "/livez/x", "/toString", "/__proto__", "/apis"]) {
      const got = await house.ask("GET", path, { token: "" });
      assert.equal(got.status, 404, path);
      const { code, status, message } = got.json();
      assert.deepEqual([code, status], ["not_found", 404]);
      assert.equal(message, "There is nothing here: see / for what is");
    }
  });

  it("/livez is 200 though nothing else is well, and /readyz 503 with the reasons", async () => {
    await using house = await openAdminHouse();
    assert.deepEqual((await house.ask("GET", "/readyz")).json(), {
      status: "ready",
      checks: ALL_WELL,
    });
    for (const name of ["config", "store", "keys", "upstreams", "draining"] as const) {
      house.checks = { ...ALL_WELL, [name]: { ok: false, why: "away" } };
      const got = await house.ask("GET", "/readyz", { token: "" });
      assert.equal(got.status, 503, name);
      assert.deepEqual(got.json(), { status: "not ready", checks: house.checks });
      assert.equal((await house.ask("GET", "/livez")).status, 200);
    }
  });

  it("/readyz/ENV tells of one environment, and is 404 for one that there is not", async () => {
    await using house = await openAdminHouse();
    house.checksOf = (environment) => ({
      ...ALL_WELL,
      upstreams: { ok: environment !== "staging" },
    });
    for (const [path, status] of Object.entries({
      "/readyz": 200,
      "/readyz/production": 200,
      "/readyz/staging": 503,
      "/readyz/other": 404,
      "/readyz/production/": 404,
    })) {
      assert.equal((await house.ask("GET", path, { token: "" })).status, status, path);
    }
    assert.equal((await house.ask("POST", "/readyz/staging")).status, 405);
  });

  it("send the security fields with every answer, refusals of the parser included", async () => {
    await using house = await openAdminHouse();
    const answers = await Promise.all([
      house.ask("GET", "/page/main.js"),
      house.ask("GET", "/api/keys"),
      house.ask("GET", "/api/keys", { token: "" }),
      house.ask("GET", "/nothing"),
    ]);
    for (const { fields } of each(answers)) {
      assert.equal(fields["cache-control"], "no-store");
      assert.equal(fields["x-content-type-options"], "nosniff");
      assert.equal(fields["x-frame-options"], "DENY");
      assert.equal(fields["referrer-policy"], "no-referrer");
      assert.equal(fields["cross-origin-resource-policy"], "same-origin");
      assert.match(String(fields["content-security-policy"]), /^default-src 'none';/);
    }
    assert.equal(
      answers[1]?.fields["content-security-policy"],
      "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    );
    const { bytes } = await sendRaw(house.port, "BROKEN\r\n\r\n");
    assert.match(bytes.toString(), /^HTTP\/1\.1 400 Bad Request\r\n/);
    assert.match(bytes.toString(), /\r\nCache-Control: no-store\r\n/);
    assert.match(bytes.toString(), /\r\nConnection: close\r\n/);
    const problem = '{"code":"bad_request","message":"The request is not well-formed HTTP"';
    assert.ok(bytes.toString().includes(problem), bytes.toString());
  });
});

describe("a body that nobody reads", () => {
  it.for([
    ["of a known length", "Content-Length: 50000", "x".repeat(1_000)],
    ["in broken chunks", "Transfer-Encoding: chunked", "this is no chunk\r\n".repeat(50)],
  ])(
    "%s is taken after the refusal, so that no reset discards the refusal",
    async ([_, framing, piece = ""]) => {
      await using house = await openAdminHouse();
      const socket = connect({ host: "127.0.0.1", port: house.port, allowHalfOpen: true });
      const errors: unknown[] = [];
      socket.on("error", (error) => errors.push(error));
      const closed = once(socket, "close");
      socket.write(`POST /api/keys HTTP/1.1\r\nHost: localhost\r\n${framing}\r\n\r\n`);
      const chunks: Buffer[] = [];
      socket.on("data", (chunk: Buffer) => chunks.push(chunk));
      await once(socket, "end");
      assert.match(Buffer.concat(chunks).toString(), /^HTTP\/1\.1 401 /);
      // Where the listener has closed the connection, the first of these is answered with a reset.
      for (let i = 0; i < 10; i++) {
        socket.write(piece);
        await setImmediate();
      }
      socket.end();
      await closed;
      assert.deepEqual(errors, []);
    },
  );
});

describe("opening and closing", () => {
  it("says which address it has, and gives the system's error for one in use", async () => {
    await using house = await openAdminHouse();
    assert.equal(house.url, `http://127.0.0.1:${house.port}`);
    await assert.rejects(openAdminHouse({ listen: { host: "127.0.0.1", port: house.port } }), {
      code: "EADDRINUSE",
    });
  });

  it("looks each second for clients that take more than 10 s for a head, or 30 s for a request", async () => {
    await using house = await openAdminHouse();
    const server = await serverOf(house);
    assert.deepEqual(
      [server.headersTimeout, server.requestTimeout, server.connectionsCheckingInterval],
      [10_000, 30_000, 1_000],
    );
  });

  it("tells in the log of a connection that the system refused, and serves on", async () => {
    await using house = await openAdminHouse();
    (await serverOf(house)).emit("error", new Error("accept EMFILE"));
    const told = JSON.stringify(["admin_listener_failed", { why: "accept EMFILE" }]);
    assert.deepEqual([house.logged, house.errors], [[told], ["admin_listener_failed"]]);
    assert.equal((await house.ask("GET", "/livez")).status, 200);
  });

  it("says that it keeps a connection for five seconds", async () => {
    await using house = await openAdminHouse();
    const got = await fetch(`${house.url}/livez`);
    assert.equal(got.headers.get("keep-alive"), "timeout=5");
    await got.text();
  });

  it("listens on IPv6 and writes its URL with brackets", async () => {
    await using house = await openAdminHouse({ listen: { host: "::1", port: 0 } });
    assert.equal(house.url, `http://[::1]:${house.port}`);
    const got = await fetch(`${house.url}/livez`);
    assert.equal(await got.text(), "ok\n");
  });
});

/** The server of the listener, as it is. */
async function serverOf(house: AdminHouse) {
  const { promise: found, resolve } = Promise.withResolvers<Server>();
  const note = (message: unknown) => {
    const { server, socket } = message as { server: Server; socket: { localPort: number } };
    if (socket.localPort === house.port) resolve(server);
  };
  subscribe("http.server.request.start", note);
  await house.ask("GET", "/livez");
  unsubscribe("http.server.request.start", note);
  return (await found) as Server & { readonly connectionsCheckingInterval: number };
}
