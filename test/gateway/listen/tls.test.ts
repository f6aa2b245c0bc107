import assert from "node:assert/strict";
import { rename, symlink, writeFile } from "node:fs/promises";
import { connect as connectPlain } from "node:net";
import { join } from "node:path";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { afterAll, beforeAll, describe, it } from "vitest";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { KEY } from "../../support/gateway/served.ts";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { freePort } from "../../support/redis/redis.ts";
import { type Authority, openAuthority } from "../../support/wire/certificates.ts";

let authority: Authority;
beforeAll(() => {
  authority = openAuthority();
});
afterAll(() => authority[Symbol.dispose]());

function openTlsHouse(
  more: Readonly<Record<string, unknown>> = {},
  config: Readonly<Record<string, unknown>> = {},
): Promise<TestGateway> {
  const { cert, key } = authority.issue(["DNS:a.test", "IP:127.0.0.1"]);
  return startTestGateway({
    config,
    environment: {
      ...more,
      tls: { cert: "./edge.pem", key: "./edge.key" },
    },
    files: { "edge.pem": cert, "edge.key": key },
    keys: { [KEY]: {} },
  });
}

const resolveNothing = () => undefined;

/** Rejects when there is no handshake, or the certificate is not for the name. */
function shake(port: number, more: ConnectionOptions = {}): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    const socket = connect(
      { port, host: "127.0.0.1", ca: authority.ca, servername: "a.test", ...more },
      () => resolve(socket),
    );
    socket.on("error", reject);
  });
}

/** One request over a connection of its own, and all that came back until it closed. */
async function get(
  port: number,
  more: ConnectionOptions = {},
  target = "/v1/pets",
): Promise<string> {
  const socket = await shake(port, more);
  socket.write(
    `GET ${target} HTTP/1.1\r\nHost: a.test\r\nAuthorization: Bearer ${KEY}\r\nConnection: close\r\n\r\n`,
  );
  let text = "";
  for await (const chunk of socket) text += String(chunk);
  return text;
}

async function serial(port: number, more: ConnectionOptions = {}): Promise<string> {
  const socket = await shake(port, more);
  const { serialNumber } = socket.getPeerCertificate();
  socket.destroy();
  return serialNumber;
}

describe("a public listener with tls", () => {
  it("serves HTTPS, says so in its url and to the backend, and keeps the law", async () => {
    await using house = await openTlsHouse();
    assert.match(house.url, /^https:\/\/127\.0\.0\.1:\d+$/);
    assert.match(await get(house.port), /^HTTP\/1\.1 200 OK\r\n/);
    const fields = house.backend.seen[0]?.rawHeaders ?? [];
    assert.equal(fields[fields.indexOf("X-Forwarded-Proto") + 1], "https");
    await house.law();
  });

  it("speaks HTTP/1.1 only, also to clients that would rather have h2", async () => {
    await using house = await openTlsHouse();
    const both = await shake(house.port, { ALPNProtocols: ["h2", "http/1.1"] });
    assert.equal(both.alpnProtocol, "http/1.1");
    both.destroy();
    await assert.rejects(shake(house.port, { ALPNProtocols: ["h2"] }), /alert|ECONNRESET/i);
  });

  it("takes HTTP/1.0 from clients that say so by ALPN, and prefers HTTP/1.1", async () => {
    await using house = await openTlsHouse();
    const both = await shake(house.port, { ALPNProtocols: ["http/1.0", "http/1.1"] });
    assert.equal(both.alpnProtocol, "http/1.1");
    both.destroy();
    const old = await shake(house.port, { ALPNProtocols: ["http/1.0"] });
    assert.equal(old.alpnProtocol, "http/1.0");
    old.write(`GET /v1/pets HTTP/1.0\r\nHost: a.test\r\nAuthorization: Bearer ${KEY}\r\n\r\n`);
    let text = "";
    for await (const chunk of old) text += String(chunk);
    assert.match(text, /^HTTP\/1\.1 200 OK\r\n/);
    await house.law();
  });

  it("refuses TLS 1.1, which the log says at level debug, and takes 1.2 and 1.3", async () => {
    await using house = await openTlsHouse();
    const old = {
      minVersion: "TLSv1",
      maxVersion: "TLSv1.1",
      ciphers: "DEFAULT@SECLEVEL=0",
    } as const;
    await assert.rejects(shake(house.port, old));
    await eventually(() => {
      const told = house.said.filter(({ msg }) => msg === "tls_handshake_failed");
      assert.deepEqual(
        told.map(({ level, why }) => [level, why]),
        [["debug", "ERR_SSL_UNSUPPORTED_PROTOCOL"]],
      );
    });
    for (const version of ["TLSv1.2", "TLSv1.3"] as const) {
      const socket = await shake(house.port, { minVersion: version, maxVersion: version });
      assert.equal(socket.getProtocol(), version);
      socket.destroy();
    }
  });

  it("answers plain HTTP with one 400 that says so, however it is cut, and lives", async () => {
    await using house = await openTlsHouse();
    const plain = "GET /v1/pets HTTP/1.1\r\nHost: a.test\r\n\r\n";
    for (const pieces of [[plain], [...plain]]) {
      const socket = connectPlain(house.port, "127.0.0.1");
      socket.on("error", () => undefined);
      for (const piece of pieces) socket.write(piece);
      let text = "";
      for await (const chunk of socket) text += String(chunk);
      assert.match(text, /^HTTP\/1\.1 400 Bad Request\r\n/);
      assert.equal(text.split("HTTP/1.1").length, 2);
      assert.match(text, /This port speaks HTTPS/);
    }
    assert.match(await get(house.port), /^HTTP\/1\.1 200/);
  });

  it("answers plain HTTP with problem details if the configuration asks for them", async () => {
    await using house = await openTlsHouse({}, { errors: "problem" });
    const socket = connectPlain(house.port, "127.0.0.1");
    socket.on("error", () => undefined);
    socket.write("GET /v1/pets HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let text = "";
    for await (const chunk of socket) text += String(chunk);
    assert.match(
      text,
      /^HTTP\/1\.1 400 Bad Request\r\nContent-Type: application\/problem\+json\r\n/,
    );
    const [, body = ""] = text.split("\r\n\r\n");
    assert.deepEqual(JSON.parse(body), {
      ...{ type: "about:blank", title: "Bad Request", status: 400 },
      ...{ detail: "This port speaks HTTPS: use https://", code: "bad_request" },
      message: "This port speaks HTTPS: use https://",
    });
  });

  it("closes a connection on which no handshake begins in headersTimeout", async () => {
    await using house = await openTlsHouse({ limits: { headersTimeout: "300ms" } });
    const socket = connectPlain(house.port, "127.0.0.1");
    const startedMs = performance.now();
    const { stalledMs } = await watchStalls(async () => {
      for await (const _ of socket) assert.fail("nothing is said");
    });
    assert.ok(performance.now() - startedMs < 3_000 + stalledMs);
  });

  it("takes AEAD ciphers with forward secrecy alone, and no renegotiation", async () => {
    await using house = await openTlsHouse();
    const over12 = (ciphers: string) =>
      shake(house.port, { maxVersion: "TLSv1.2", ciphers: `${ciphers}:@SECLEVEL=0` });
    const good = await over12("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256");
    const refused = new Promise((resolve) => good.once("error", resolve).once("close", resolve));
    good.renegotiate({}, resolveNothing);
    await refused;
    for (const weak of [
      "ECDHE-RSA-AES128-SHA:ECDHE-ECDSA-AES128-SHA",
      "ECDHE-RSA-AES256-SHA384:ECDHE-ECDSA-AES256-SHA384",
      "AES128-GCM-SHA256",
    ]) {
      await assert.rejects(over12(weak), weak);
    }
  });

  it("takes the absolute form for https:// alone: the listener's own scheme", async () => {
    await using house = await openTlsHouse();
    for (const target of ["https://a.test/v1/pets", "HTTPS://a.test:443/v1/pets"]) {
      assert.match(await get(house.port, {}, target), /^HTTP\/1\.1 200/);
    }
    for (const target of ["http://a.test/v1/pets", "https://a.test:80/v1/pets"]) {
      assert.match(await get(house.port, {}, target), /^HTTP\/1\.1 400/);
    }
  });

  it("lets a refusal arrive although the body is still on its way", async () => {
    await using house = await openTlsHouse();
    const socket = await shake(house.port);
    const length = 512 * 1024;
    socket.write(`POST /v1/pets HTTP/1.1\r\nHost: a.test\r\nContent-Length: ${length}\r\n\r\n`);
    socket.write(Buffer.alloc(length));
    let text = "";
    for await (const chunk of socket) text += String(chunk);
    assert.match(text, /^HTTP\/1\.1 401/);
  });
});

describe("the certificate of a listener", () => {
  it("is read again when both files change, for new connections, with and without SNI", async () => {
    await using house = await openTlsHouse();
    const first = await serial(house.port);
    const kept = await shake(house.port);
    const { cert, key } = authority.issue(["DNS:a.test", "IP:127.0.0.1"]);
    await replace(house, { "edge.pem": cert, "edge.key": key });
    const second = await eventually(
      async () => {
        const now = await serial(house.port);
        assert.notEqual(now, first);
        return now;
      },
      { withinMs: 60_000, everyMs: 50 },
    );
    assert.equal(await serial(house.port, { servername: "" }), second);
    assert.equal(kept.destroyed, false);
    kept.destroy();
    const told = house.said.filter(({ msg }) => msg === "certificate_reloaded");
    assert.deepEqual(
      told.map(({ level, env }) => [level, env]),
      [["info", "production"]],
    );
  });

  it("stays when only one of the two changed, or what came is broken, and the log says why without a key", async () => {
    await using house = await openTlsHouse();
    const first = await serial(house.port);
    const other = authority.issue(["DNS:a.test"]);
    const complaints = () => house.said.filter(({ msg }) => msg === "certificate_refused");
    await replace(house, { "edge.pem": other.cert });
    await eventually(() => complaints().length === 1, { withinMs: 60_000 });
    assert.equal(await serial(house.port), first);
    await replace(house, {
      "edge.key": "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----\n",
    });
    await eventually(() => complaints().length === 2, { withinMs: 60_000 });
    assert.equal(await serial(house.port), first);
    const told = JSON.stringify(house.said);
    assert.match(told, /does not belong to the certificate/);
    assert.match(told, /no private key as PEM/);
    assert.doesNotMatch(told, /c2VjcmV0|BEGIN/);
    await replace(house, { "edge.key": other.key });
    await eventually(async () => (await serial(house.port)) !== first, { withinMs: 60_000 });
  });

  it("stays, and so does the gateway, while the system cannot follow the path of its files", async () => {
    await using house = await openTlsHouse();
    const first = await serial(house.port);
    const path = join(house.directory, "edge.pem");
    await rename(path, `${path}.kept`);
    // A file that cannot be looked at: any code of the system but ENOENT.
    await symlink("edge.pem", path);
    const complaint = () => house.said.find(({ msg }) => msg === "certificate_refused");
    await eventually(() => assert.match(String(complaint()?.why), /the system says ELOOP/));
    assert.equal(await serial(house.port), first);
    const { cert, key } = authority.issue(["DNS:a.test"]);
    await replace(house, { "edge.pem": cert, "edge.key": key });
    await eventually(async () => (await serial(house.port)) !== first, { withinMs: 60_000 });
  });

  it("is chosen by SNI where environments share a listener", async () => {
    const port = await freePort();
    const [one, two] = [authority.issue(["DNS:one.test"]), authority.issue(["DNS:two.test"])];
    const listen = `127.0.0.1:${port}`;
    const more = (name: string, keyTag: string) => ({
      ...{ listen, keyTag, hosts: [`${name}.test`], upstreams: ["http://127.0.0.1:9"] },
      tls: { cert: `./${name}.pem`, key: `./${name}.key` },
    });
    await using house = await startTestGateway({
      config: { environments: { production: more("one", "live"), staging: more("two", "test") } },
      files: {
        ...{ "one.pem": one.cert, "one.key": one.key },
        ...{ "two.pem": two.cert, "two.key": two.key },
      },
    });
    assert.equal(house.gateway.urls.staging, house.gateway.urls.production);
    for (const name of ["one.test", "two.test", "TWO.test"]) {
      (await shake(port, { servername: name })).destroy();
    }
    await assert.rejects(shake(port, { servername: "three.test" }), /altnames/);
  });
});

async function replace(house: TestGateway, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    const path = join(house.directory, name);
    await writeFile(`${path}.new`, text);
    await rename(`${path}.new`, path);
  }
}
