import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { METRICS_TYPE } from "../../src/admin/metrics.ts";
import { eventually } from "../support/poll.ts";
import { sendRaw } from "../support/raw.ts";
import { ALL_WELL, openAdminHouse, TOKEN } from "./admin-house.ts";

describe("the open endpoints", () => {
  it("answer without a token, GET and HEAD alike", async () => {
    await using house = await openAdminHouse();
    const types = {
      "/": "text/html; charset=utf-8",
      "/livez": "text/plain; charset=utf-8",
      "/readyz": "application/json",
      "/metrics": METRICS_TYPE,
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
      assert.equal(got.json().code, "method_not_allowed");
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
      assert.deepEqual([code, status, typeof message], ["not_found", 404, "string"]);
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

  it("the page names every path of the contract, and loads nothing", async () => {
    await using house = await openAdminHouse();
    const { text } = await house.ask("GET", "/");
    const paths = ["/livez", "/readyz", "/metrics", "/api/keys", "/api/keys/ID/rotate"];
    paths.push("/api/keys/ID/revoke", "/api/bans", "/api/bans/ID", "/api/usage/ID", "/api/config");
    for (const path of [...paths, "/api/reload"]) assert.ok(text.includes(path), path);
    assert.doesNotMatch(text, /<script|<style|src=|style=/);
  });

  it("send the security fields with every answer, refusals of the parser included", async () => {
    await using house = await openAdminHouse();
    const answers = await Promise.all([
      house.ask("GET", "/"),
      house.ask("GET", "/api/keys"),
      house.ask("GET", "/api/keys", { token: "" }),
      house.ask("GET", "/nothing"),
    ]);
    for (const { fields } of answers) {
      assert.equal(fields["cache-control"], "no-store");
      assert.equal(fields["x-content-type-options"], "nosniff");
      assert.equal(fields["x-frame-options"], "DENY");
      assert.equal(fields["referrer-policy"], "no-referrer");
      assert.match(String(fields["content-security-policy"]), /^default-src 'none';/);
    }
    const { bytes } = await sendRaw(house.port, "BROKEN\r\n\r\n");
    assert.match(bytes.toString(), /^HTTP\/1\.1 400 Bad Request\r\n/);
    assert.match(bytes.toString(), /\r\nCache-Control: no-store\r\n/);
    assert.match(bytes.toString(), /"code":"bad_request"/);
  });
});

describe("/api is guarded", () => {
  it("needs the token, compared whole", async () => {
    await using house = await openAdminHouse();
    const missing = await house.ask("GET", "/api/keys", { token: "" });
    assert.equal(missing.status, 401);
    assert.equal(missing.fields["www-authenticate"], 'Bearer realm="tollgate admin"');
    assert.equal(missing.json().code, "token_missing");
    const wrong = [TOKEN.slice(0, -1), `${TOKEN}x`, TOKEN.toUpperCase(), "x"];
    for (const token of wrong) {
      const got = await house.ask("GET", "/api/keys", { token });
      assert.equal(got.status, 401);
      assert.match(String(got.fields["www-authenticate"]), /error="invalid_token"/);
      assert.equal(got.json().code, "token_invalid");
    }
    for (const authorization of [`Basic ${TOKEN}`, TOKEN, "Bearer", `Bearer${TOKEN}`]) {
      const fields = { Authorization: authorization };
      assert.equal((await house.ask("GET", "/api/keys", { fields })).status, 401);
    }
    for (const authorization of [`Bearer ${TOKEN}`, `bearer  ${TOKEN}`, `BEARER ${TOKEN}`]) {
      const fields = { Authorization: authorization };
      assert.equal((await house.ask("GET", "/api/keys", { fields })).status, 200);
    }
  });

  it("tells a stranger nothing of what paths there are", async () => {
    await using house = await openAdminHouse();
    for (const path of ["/api", "/api/", "/api/nothing", "/api/keys/x/y/z"]) {
      assert.equal((await house.ask("GET", path, { token: "" })).status, 401, path);
      assert.equal((await house.ask("GET", path)).status, 404, path);
    }
  });

  it("needs no token where none is set, and still refuses foreign pages", async () => {
    await using house = await openAdminHouse({ token: "" });
    assert.equal((await house.ask("GET", "/api/keys")).status, 200);
    const foreign = { Host: "attacker.example" };
    assert.equal((await house.ask("GET", "/api/keys", { fields: foreign })).status, 403);
  });

  it("refuses a foreign Host, and takes its own with or without a port", async () => {
    await using house = await openAdminHouse();
    const own = ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.0.0.1:1", "localhost:65535"];
    for (const host of [...own, "[::1]:9090", `127.0.0.1:${house.port}`]) {
      const got = await house.ask("GET", "/api/keys", { fields: { Host: host } });
      assert.equal(got.status, 200, host);
    }
    const foreign = ["attacker.example", "localhost.attacker.example", "127.0.0.1.nip.example"];
    foreign.push(
      "10.0.0.1",
      "[::2]",
      "127.0.0.2",
      "::1",
      "localhost:x",
      "a@localhost",
      "localhost/",
    );
    for (const host of [...foreign, "localhost:123456", " ", "localhost."]) {
      const got = await house.ask("GET", "/api/keys", { fields: { Host: host } });
      assert.equal(got.status, 403, host);
      assert.equal(got.json().code, "host_refused");
    }
  });

  it("on all addresses with a token, takes any address as Host and no name", async () => {
    await using house = await openAdminHouse({ listen: { host: "0.0.0.0", port: 0 } });
    for (const host of ["10.1.2.3:9090", "192.0.2.1", "[2001:db8::1]:9090", "localhost"]) {
      const got = await house.ask("GET", "/api/keys", { fields: { Host: host } });
      assert.equal(got.status, 200, host);
    }
    for (const host of ["attacker.example", "10.1.2.3.example", "[2001:db8::zz]", "10.1.2"]) {
      const got = await house.ask("GET", "/api/keys", { fields: { Host: host } });
      assert.equal(got.status, 403, host);
    }
  });

  it("refuses every Origin but its own", async () => {
    await using house = await openAdminHouse();
    const host = `127.0.0.1:${house.port}`;
    const ask = (origin: string) =>
      house.ask("GET", "/api/keys", { fields: { Origin: origin, Host: host } });
    assert.equal((await ask(`http://${host}`)).status, 200);
    const foreign = [
      "null",
      "http://attacker.example",
      `https://${host}`,
      "http://127.0.0.1",
      "",
      host,
    ];
    for (const origin of [...foreign, `http://${host}.example`, `http://localhost:${house.port}`]) {
      const got = await ask(origin);
      assert.equal(got.status, 403, origin);
      assert.equal(got.json().code, "origin_refused");
      assert.equal(got.fields["access-control-allow-origin"], undefined);
    }
  });

  it("refuses a writing request that is not application/json, DELETE included", async () => {
    await using house = await openAdminHouse();
    const writes = [
      ["POST", "/api/keys"],
      ["POST", "/api/keys/x/rotate"],
      ["POST", "/api/keys/x/revoke"],
    ];
    writes.push(["DELETE", "/api/bans/x"], ["POST", "/api/reload"]);
    const types = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""];
    types.push(
      "application/jsonx",
      "application/json; charset=latin1",
      "application/json, text/plain",
    );
    for (const [method = "", path = ""] of writes) {
      for (const type of types) {
        const got = await house.ask(method, path, { body: "{}", fields: { "Content-Type": type } });
        assert.equal(got.status, 415, `${method} ${path} ${type}`);
        assert.equal(got.json().code, "unsupported_media_type");
      }
    }
    for (const type of ["application/json; charset=utf-8", "Application/JSON"]) {
      const got = await house.ask("POST", "/api/reload", { fields: { "Content-Type": type } });
      assert.equal(got.status, 200, type);
    }
  });

  it("says 405 with Allow for another method of a known path", async () => {
    await using house = await openAdminHouse();
    const rows = [
      ["PUT", "/api/keys", "GET, HEAD, POST"],
      ["GET", "/api/keys/x/revoke", "POST"],
      ["POST", "/api/bans/x", "DELETE"],
      ["DELETE", "/api/config", "GET, HEAD"],
      ["OPTIONS", "/api/keys", "GET, HEAD, POST"],
    ];
    for (const [method = "", path = "", allow] of rows) {
      const got = await house.ask(method, path);
      assert.equal(got.status, 405, `${method} ${path}`);
      assert.equal(got.fields.allow, allow);
    }
    assert.equal((await house.ask("HEAD", "/api/keys")).status, 200);
  });

  it("takes no query, so that nobody believes in a filter that is none", async () => {
    await using house = await openAdminHouse();
    assert.equal((await house.ask("GET", "/api/keys?account=a")).status, 400);
    assert.equal((await house.ask("GET", "/api/keys?")).status, 400);
  });
});

describe("requests that nobody should send", () => {
  it("need exactly one Host and no repeated field that decides something", async () => {
    await using house = await openAdminHouse();
    const start = "GET /livez HTTP/1.1\r\n";
    const broken = [`${start}\r\n`, `${start}Host: a\r\nHost: a\r\n\r\n`];
    for (const name of ["Authorization", "Content-Type", "Origin"]) {
      broken.push(`${start}Host: a\r\n${name}: x\r\n${name}: x\r\n\r\n`);
    }
    for (const bytes of [...broken, "GET http://a/livez HTTP/1.1\r\nHost: a\r\n\r\n"]) {
      const got = await sendRaw(house.port, bytes, { methods: ["GET"] });
      assert.match(got.bytes.toString(), /^HTTP\/1\.1 400 /, bytes);
    }
    const fine = await sendRaw(house.port, `${start}Host: a\r\n\r\n`, { methods: ["GET"] });
    assert.match(fine.bytes.toString(), /^HTTP\/1\.1 200 /);
  });

  it("get their answer although they go on writing, and the connection closes", async () => {
    await using house = await openAdminHouse();
    const body = Buffer.alloc(900_000, 0x20);
    const head = "POST /api/keys HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    for (const [more, status] of [
      ["", 401],
      [`Authorization: Bearer ${TOKEN}\r\n`, 413],
    ] as const) {
      const bytes = `${head}${more}Content-Length: ${body.length}\r\n\r\n`;
      const got = await sendRaw(house.port, [bytes, body]);
      assert.match(got.bytes.toString(), new RegExp(`^HTTP/1\\.1 ${status} `));
      assert.match(got.bytes.toString(), /\r\nConnection: close\r\n/);
      assert.equal(got.ended, "closed");
    }
  });

  it("take a body of 64 KiB and refuse one byte more", async () => {
    await using house = await openAdminHouse();
    const whole = (bytes: number) => `{"x":"${"y".repeat(bytes - 8)}"}`;
    assert.equal((await house.ask("POST", "/api/keys", { body: whole(65_536) })).status, 400);
    const more = await house.ask("POST", "/api/keys", { body: whole(65_537) });
    assert.deepEqual([more.status, more.json().code], [413, "body_too_large"]);
  });

  it("get 417, 405 for CONNECT, 431, in the Error shape", async () => {
    await using house = await openAdminHouse();
    const host = "Host: localhost\r\n";
    const rows = [
      [`GET /livez HTTP/1.1\r\n${host}Expect: magic\r\n\r\n`, 417],
      [`CONNECT localhost:1 HTTP/1.1\r\n${host}\r\n`, 405],
      [`GET /livez HTTP/1.1\r\n${host}X: ${"y".repeat(20_000)}\r\n\r\n`, 431],
    ] as const;
    for (const [bytes, status] of rows) {
      const got = (await sendRaw(house.port, bytes, { methods: ["GET"] })).bytes.toString();
      assert.match(got, new RegExp(`^HTTP/1\\.1 ${status} `));
      assert.match(got, new RegExp(`"status":${status}}$`));
    }
  });

  it("answers an upgrade as a plain request, and does not upgrade", async () => {
    await using house = await openAdminHouse();
    const fields = { Connection: "Upgrade", Upgrade: "websocket" };
    assert.equal((await house.ask("GET", "/livez", { token: "", fields })).status, 200);
  });

  it("cuts a request whose head or body never ends, with 408", async () => {
    const limits = { headersTimeoutMs: 150, requestTimeoutMs: 300 };
    await using house = await openAdminHouse({ limits });
    const head = `POST /api/reload HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${TOKEN}\r\n`;
    const slow = [head, `${head}Content-Type: application/json\r\nContent-Length: 5\r\n\r\n{`];
    for (const bytes of slow) {
      const got = await sendRaw(house.port, bytes, { timeoutMs: 10_000 });
      assert.notEqual(got.ended, "timeout");
      assert.match(got.bytes.toString(), /^HTTP\/1\.1 408 .*"code":"request_timeout"/s);
    }
    const silent = await sendRaw(house.port, "", { timeoutMs: 10_000 });
    assert.notEqual(silent.ended, "timeout");
  });

  it("beyond the limit of connections are turned away, and served again later", async () => {
    await using house = await openAdminHouse({ limits: { connections: 3, headersTimeoutMs: 400 } });
    const held = [1, 2, 3].map(() => sendRaw(house.port, "GET", { timeoutMs: 10_000 }));
    await eventually(() =>
      house.ask("GET", "/livez").then(
        () => false,
        () => true,
      ),
    );
    await Promise.all(held);
    const later = await eventually(() => house.ask("GET", "/livez"));
    assert.equal(later.status, 200);
  });
});

describe("opening and closing", () => {
  it("says which address it has, and gives the system's error for one in use", async () => {
    await using house = await openAdminHouse();
    assert.equal(house.url, `http://127.0.0.1:${house.port}`);
    await assert.rejects(openAdminHouse({ listen: { host: "127.0.0.1", port: house.port } }), {
      code: "EADDRINUSE",
    });
  });

  it("listens on IPv6 and writes its URL with brackets", async () => {
    await using house = await openAdminHouse({ listen: { host: "::1", port: 0 } });
    assert.equal(house.url, `http://[::1]:${house.port}`);
    const got = await fetch(`${house.url}/livez`);
    assert.equal(await got.text(), "ok\n");
  });
});
