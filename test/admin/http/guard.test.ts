import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { checkAccess } from "../../../src/admin/http/guard.ts";
import { openAdminHouse, TOKEN } from "../admin-house.ts";

describe("/api is guarded", () => {
  it("needs the token, compared whole", async () => {
    await using house = await openAdminHouse();
    const missing = await house.ask("GET", "/api/keys", { token: "" });
    assert.equal(missing.status, 401);
    assert.equal(missing.fields["www-authenticate"], 'Bearer realm="tollgate admin"');
    const { code: why, message: help } = missing.json();
    assert.equal(why, "token_missing");
    assert.match(String(help), /^The admin token is required: send Authorization: Bearer <admin/);
    const wrong = [TOKEN.slice(0, -1), `${TOKEN}x`, TOKEN.toUpperCase(), "x"];
    for (const token of wrong) {
      const got = await house.ask("GET", "/api/keys", { token });
      assert.equal(got.status, 401);
      const challenge = 'Bearer realm="tollgate admin", error="invalid_token"';
      assert.equal(got.fields["www-authenticate"], challenge);
      const { code, message } = got.json();
      assert.deepEqual([code, message], ["token_invalid", "The admin token is not valid"]);
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
      const known = await house.ask("GET", path);
      const message = "There is nothing here: see / for what is";
      assert.deepEqual([known.status, known.json().message], [404, message], path);
    }
  });

  it("needs no token where none is set, and still refuses foreign pages", async () => {
    await using house = await openAdminHouse({ token: "" });
    assert.equal((await house.ask("GET", "/api/keys")).status, 200);
    const foreign = { Host: "attacker.example" };
    assert.equal((await house.ask("GET", "/api/keys", { fields: foreign })).status, 403);
  });

  it("takes an address of IPv6 by its brackets as its own Host, and a token by its bytes", () => {
    const guarded = { host: "2001:db8::1", hosts: [] as string[], token: "schlüssel" };
    const sent = Buffer.from(`Bearer ${guarded.token}`).toString("latin1");
    const head = {
      origin: undefined,
      fetchSite: undefined,
      authorization: sent,
      contentType: undefined,
    };
    const statusOf = (host: string) => checkAccess({ ...head, host }, guarded)?.status;
    for (const host of ["[2001:DB8::1]:9090", "[2001:db8:0:0:0:0:0:1]", "[0:0:0:0:0:0:0:1]:9090"]) {
      assert.equal(statusOf(host), undefined, host);
    }
    assert.equal(statusOf("[2001:db8::2]:9090"), 403);
    guarded.hosts.push("[2001:db8::2]");
    assert.equal(statusOf("[2001:db8::2]:9090"), undefined);
    assert.equal(statusOf("[2001:db8:0:0::2]:9090"), undefined);
    assert.equal(statusOf("[::ffff:192.0.2.1]:9090"), 403);
    assert.equal(
      checkAccess({ ...head, host: "[::FFFF:c000:201]" }, { ...guarded, host: "192.0.2.1" }),
      undefined,
    );
    const page = { ...head, host: "LOCALHOST:9090", origin: "http://localhost:9090" };
    assert.equal(checkAccess(page, guarded), undefined);
  });

  it("asks for a token of one character as for any other", () => {
    const guarded = { host: "127.0.0.1", hosts: [], token: "x" };
    const head = {
      host: "127.0.0.1",
      origin: undefined,
      fetchSite: undefined,
      contentType: undefined,
    };
    assert.equal(checkAccess({ ...head, authorization: undefined }, guarded)?.status, 401);
    assert.equal(checkAccess({ ...head, authorization: "Bearer x" }, guarded), undefined);
  });

  it("refuses a foreign Host, and takes its own with or without a port or a final dot", async () => {
    await using house = await openAdminHouse();
    const own = ["127.0.0.1", "localhost", "LOCALHOST", "[::1]", "127.0.0.1:1", "localhost:65535"];
    own.push("localhost.", "LocalHost.:9090");
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
    for (const host of [
      ...foreign,
      "localhost:123456",
      " ",
      "localhost..",
      "localhost.attacker.example.",
    ]) {
      const got = await house.ask("GET", "/api/keys", { fields: { Host: host } });
      assert.equal(got.status, 403, host);
      const { code, message } = got.json();
      const told = [code, message];
      assert.deepEqual(told, ["host_refused", "This Host is not a name of the admin listener"]);
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

  it("on all addresses of IPv6 takes any address as Host too", async () => {
    await using house = await openAdminHouse({ listen: { host: "::", port: 0 } });
    for (const host of ["10.1.2.3", "[2001:db8::1]:9090"]) {
      const got = await house.ask("GET", "/api/keys", { fields: { Host: host } });
      assert.equal(got.status, 200, host);
    }
  });

  it("on loopback of IPv6 answers to its other names too", async () => {
    await using house = await openAdminHouse({ listen: { host: "::1", port: 0 } });
    for (const host of ["127.0.0.1", "127.0.0.1:9090", "[::1]", "localhost:9090"]) {
      const got = await house.ask("GET", "/api/keys", { fields: { Host: host } });
      assert.equal(got.status, 200, host);
    }
    const got = await house.ask("GET", "/api/keys", { fields: { Host: "127.0.0.2" } });
    assert.equal(got.status, 403);
  });

  it("answers to the names of hosts, such as that of a service, and to no other", async () => {
    const hosts = ["tollgate-admin", "gateway.internal"];
    await using house = await openAdminHouse({ hosts, listen: { host: "0.0.0.0", port: 0 } });
    for (const [host, status] of Object.entries({
      "tollgate-admin": 200,
      "Tollgate-Admin:9090": 200,
      "gateway.internal:9090": 200,
      "gateway.internal.": 200,
      "Gateway.Internal.:9090": 200,
      "gateway.internal..": 403,
      "tollgate-admin.attacker.example": 403,
      "xtollgate-admin": 403,
      internal: 403,
    })) {
      const got = await house.ask("GET", "/api/keys", { fields: { Host: host } });
      assert.equal(got.status, status, host);
    }
  });

  it("refuses every Origin but its own", async () => {
    await using house = await openAdminHouse();
    const host = `127.0.0.1:${house.port}`;
    const ask = (origin: string) =>
      house.ask("GET", "/api/keys", { fields: { Origin: origin, Host: host } });
    for (const own of [`http://${host}`, `https://${host}`, `HTTPS://${host}`]) {
      assert.equal((await ask(own)).status, 200, own);
    }
    const foreign = [
      "null",
      "http://attacker.example",
      "https://attacker.example",
      "https://gateway.internal",
      `ftp://${host}`,
      `https://a@${host}`,
      `https://${host}/`,
      "http://127.0.0.1",
      "https://127.0.0.1",
      "",
      host,
    ];
    for (const origin of [...foreign, `http://${host}.example`, `http://localhost:${house.port}`]) {
      const got = await ask(origin);
      assert.equal(got.status, 403, origin);
      const { code, message } = got.json();
      assert.equal(code, "origin_refused");
      assert.equal(message, "Requests from pages of another origin are refused");
      assert.equal(got.fields["access-control-allow-origin"], undefined);
    }
  });

  it("refuses what a page of another origin loads without an Origin, such as an image", async () => {
    await using house = await openAdminHouse({ token: "" });
    const statusOf = async (path: string, site: string) => {
      return (await house.ask("HEAD", path, { fields: { "Sec-Fetch-Site": site } })).status;
    };
    for (const site of ["cross-site", "same-site"])
      assert.equal(await statusOf("/api/events", site), 403, site);
    for (const site of ["same-origin", "none"])
      assert.equal(await statusOf("/api/keys", site), 200);
    assert.equal(await statusOf("/", "cross-site"), 200, "a link leads to the page");
  });

  it("takes the Origin of a proxy that speaks TLS for it: the Host asked for, or a name of hosts", async () => {
    await using house = await openAdminHouse({ hosts: ["gateway.internal"] });
    for (const [host, origin, status] of [
      ["gateway.internal", "https://gateway.internal", 200],
      ["gateway.internal:443", "https://gateway.internal", 200],
      ["gateway.internal:80", "http://gateway.internal", 200],
      ["127.0.0.1:443", "https://127.0.0.1", 200],
      ["127.0.0.1:80", "https://127.0.0.1", 403],
      ["127.0.0.1:9090", "https://gateway.internal", 200],
      ["127.0.0.1:9090", "https://gateway.internal:8443", 200],
      ["gateway.internal", "https://gateway.internal.", 200],
      ["gateway.internal.", "https://gateway.internal.", 200],
      ["gateway.internal", "https://gateway.internal..", 403],
      ["127.0.0.1:9090", "http://gateway.internal", 403],
      ["gateway.internal:443", "http://gateway.internal", 403],
      ["gateway.internal:80", "https://gateway.internal:80", 200],
      ["127.0.0.1:9090", "https://gateway.internal.attacker.example", 403],
      ["127.0.0.1:9090", "https://xgateway.internal", 403],
      ["127.0.0.1:9090", "https://attacker.example:9090", 403],
      ["attacker.example", "https://attacker.example", 403],
    ] as const) {
      const fields = { Host: host, Origin: origin };
      const got = await house.ask("GET", "/api/keys", { fields });
      assert.equal(got.status, status, `${host} ${origin}`);
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
        const { code, message } = got.json();
        const told = [code, message];
        assert.deepEqual(told, ["unsupported_media_type", "Send Content-Type: application/json"]);
      }
    }
    for (const type of [
      "application/json; charset=utf-8",
      'application/json ;charset="UTF-8" ',
      "Application/JSON",
    ]) {
      const got = await house.ask("POST", "/api/reload", { fields: { "Content-Type": type } });
      assert.equal(got.status, 200, type);
    }
  });

  it("says 405 with Allow for another method of a known path", async () => {
    await using house = await openAdminHouse();
    const rows = [
      ["PUT", "/api/keys", "GET, HEAD, POST"],
      ["GET", "/api/keys/x/revoke", "POST"],
      ["POST", "/api/bans/x", "GET, HEAD, DELETE"],
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
    assert.equal((await house.ask("GET", "/api/keys?plan=a")).status, 400);
    assert.equal((await house.ask("GET", "/api/keys?")).status, 400);
    for (const [path, message] of [
      ["/api/plans?a=1", "Nothing here takes a query"],
      ["/api/plans?", "Nothing here takes a query"],
      ["/api/bans?lost=no", "lost must be true"],
      ["/api/bans?limit=1&limit=1", "The query may have limit, after, lost, each once"],
    ] as const) {
      const got = await house.ask("GET", path);
      assert.deepEqual([got.status, got.json().message], [400, message], path);
    }
  });

  it("takes a path as its target, and no other form of one", async () => {
    await using house = await openAdminHouse();
    for (const [method, target] of [
      ["OPTIONS", "*"],
      ["GET", `${house.url}/livez`],
    ] as const) {
      const got = await house.ask(method, target);
      const { code, message } = got.json();
      assert.deepEqual([got.status, code], [400, "bad_request"], target);
      assert.match(String(message), /^A request needs exactly one Host, no repeated fields, and a/);
    }
  });
});
