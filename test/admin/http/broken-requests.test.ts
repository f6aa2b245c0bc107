import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { promisify } from "node:util";
import { describe, it } from "vitest";
import { handleParserErrors } from "../../../src/admin/http/parser-error.ts";
import { LINGER_MS } from "../../../src/base/linger.ts";
import { eventually } from "../../support/poll.ts";
import { sendRaw } from "../../support/wire/raw.ts";
import { openAdminHouse, TOKEN } from "../admin-house.ts";

describe("requests that nobody should send", () => {
  it("need exactly one Host and no repeated field that decides something", async () => {
    await using house = await openAdminHouse();
    const start = "GET /livez HTTP/1.1\r\n";
    const broken = [
      `${start}\r\n`,
      "GET /livez HTTP/1.1\nHost: a\n\n",
      `${start}Host: a\r\nHost: a\r\n\r\n`,
    ];
    for (const name of ["Authorization", "Content-Type", "Origin"]) {
      broken.push(`${start}Host: a\r\n${name}: x\r\n${name}: x\r\n\r\n`);
    }
    for (const [value, name] of [
      ["2", "Content-Length"],
      ["chunked", "Transfer-Encoding"],
    ]) {
      const first = value === "2" ? value : "gzip";
      broken.push(`${start}Host: a\r\n${name}: ${first}\r\n${name}: ${value}\r\n\r\n`);
    }
    for (const bytes of [...broken, "GET http://a/livez HTTP/1.1\r\nHost: a\r\n\r\n"]) {
      const got = await sendRaw(house.port, bytes, { methods: ["GET"] });
      assert.match(got.bytes.toString(), /^HTTP\/1\.1 400 .*"code":"bad_request"/s, bytes);
    }
    const fine = await sendRaw(house.port, `${start}Host: a\r\n\r\n`, { methods: ["GET"] });
    assert.match(fine.bytes.toString(), /^HTTP\/1\.1 200 /);
  });

  it("get their answer although they go on writing, and the connection closes", async () => {
    await using house = await openAdminHouse();
    const body = Buffer.alloc(900_000, 0x20);
    const head = "POST /api/keys HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n";
    const chunked = `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}`;
    for (const [more, status] of [
      [`Content-Length: ${body.length}\r\n`, 401],
      [chunked, 401],
      [`Authorization: Bearer ${TOKEN}\r\nContent-Length: ${body.length}\r\n`, 413],
    ] as const) {
      const got = await sendRaw(house.port, [`${head}${more}\r\n`, body]);
      assert.match(got.bytes.toString(), new RegExp(`^HTTP/1\\.1 ${status} `));
      assert.match(got.bytes.toString(), /\r\nConnection: close\r\n/);
      assert.equal(got.ended, "closed");
    }
  });

  it("leave no connection behind, also where the client never closes its side", async () => {
    await using server = createServer();
    handleParserErrors(server);
    await once(server.listen(0, "127.0.0.1"), "listening");
    const connections = promisify(server.getConnections.bind(server));
    const { port } = server.address() as AddressInfo;
    const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    client.resume().write("this is no HTTP\r\n\r\n");
    await once(client, "end");
    assert.equal(await connections(), 1, "what the client still sends is read for a moment");
    await eventually(async () => assert.equal(await connections(), 0));
    client.destroy();
  });

  it.for(["this is no HTTP\r\n\r\n", "CONNECT localhost:1 HTTP/1.1\r\nHost: localhost:1\r\n\r\n"])(
    "leave the answer to the request before them as it is: %j",
    async (broken) => {
      const held = Promise.withResolvers<ServerResponse>();
      await using server = createServer((_, response) => held.resolve(response));
      handleParserErrors(server);
      const seen = Promise.race([once(server, "clientError"), once(server, "connect")]);
      await once(server.listen(0, "127.0.0.1"), "listening");
      const { port } = server.address() as AddressInfo;
      const got = sendRaw(port, `GET / HTTP/1.1\r\nHost: a\r\n\r\n${broken}`);
      await seen;
      (await held.promise).end("held");
      assert.match((await got).bytes.toString(), /^HTTP\/1\.1 200 OK\r\n.*\r\n\r\nheld$/s);
    },
  );

  it("leave it whole although it takes longer than what follows is read for", async () => {
    await using server = createServer((_, response) => {
      setTimeout(() => response.end("late"), LINGER_MS + 300);
    });
    handleParserErrors(server);
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    const got = await sendRaw(port, "GET / HTTP/1.1\r\nHost: a\r\n\r\nthis is no HTTP\r\n\r\n");
    assert.match(got.bytes.toString(), /^HTTP\/1\.1 200 OK\r\n.*\r\n\r\nlate$/s);
    assert.equal(got.ended, "closed");
  });

  it("have one JSON object as their body, in UTF-8", async () => {
    await using house = await openAdminHouse();
    const fields = "Host: localhost\r\nContent-Type: application/json\r\n";
    const head = `POST /api/reload HTTP/1.1\r\n${fields}Authorization: Bearer ${TOKEN}\r\n`;
    for (const body of ["[]", "null", "1", '"a"', "{", '{"\xff":1}']) {
      const bytes = Buffer.from(body, "latin1");
      const got = await sendRaw(house.port, [
        `${head}Connection: close\r\nContent-Length: ${bytes.length}\r\n\r\n`,
        bytes,
      ]);
      assert.match(got.bytes.toString(), /400 .*The body must be one JSON object, in UTF-8/s, body);
    }
  });

  it("take a body of 64 KiB and refuse one byte more", async () => {
    await using house = await openAdminHouse();
    const whole = (bytes: number) => `{"x":"${"y".repeat(bytes - 8)}"}`;
    assert.equal((await house.ask("POST", "/api/keys", { body: whole(65_536) })).status, 400);
    const more = await house.ask("POST", "/api/keys", { body: whole(65_537) });
    const { code, message } = more.json();
    const told = [413, "body_too_large", "The body is larger than 64 KiB"];
    assert.deepEqual([more.status, code, message], told);
  });

  it("get 417, 405 for CONNECT, 431, in the Error shape, and keep the connection once their body was read", async () => {
    await using house = await openAdminHouse();
    const host = "Host: localhost\r\n";
    const token = `Authorization: Bearer ${TOKEN}`;
    const json = `${token}\r\nContent-Type: application/json\r\nContent-Length: 2`;
    const rows = [
      [
        `GET /livez HTTP/1.1\r\n${host}Expect: magic\r\n\r\n`,
        417,
        /: keep-alive\r\n.*"message":"Only 100-continue is supported"/s,
      ],
      [`CONNECT localhost:1 HTTP/1.1\r\n${host}\r\n`, 405, /\r\nAllow: GET, HEAD\r\n/],
      [
        `GET /livez HTTP/1.1\r\n${host}X: ${"y".repeat(20_000)}\r\n\r\n`,
        431,
        /"The request header fields are too large"/,
      ],
      [`POST /livez HTTP/1.1\r\n${host}Content-Length: 1\r\n\r\n`, 405, /: close\r\n/],
      [`POST /api/keys HTTP/1.1\r\n${host}${json}\r\n\r\n{}`, 400, /: keep-alive\r\n/],
    ] as const;
    for (const [bytes, status, more] of rows) {
      const got = (await sendRaw(house.port, bytes, { methods: ["GET"] })).bytes.toString();
      assert.match(got, new RegExp(`^HTTP/1\\.1 ${status} `));
      assert.match(got, new RegExp(`"status":${status}}$`));
      assert.match(got, more);
    }
  });

  it("may have a head of 16 KiB", async () => {
    await using house = await openAdminHouse();
    for (const [bytes, status] of [
      [16_300, 200],
      [16_500, 431],
    ] as const) {
      const start = "GET /livez HTTP/1.1\r\nHost: a\r\nX: ";
      const head = `${start}${"y".repeat(bytes - start.length - 4)}\r\n\r\n`;
      const got = await sendRaw(house.port, head, { methods: ["GET"] });
      assert.match(got.bytes.toString(), new RegExp(`^HTTP/1\\.1 ${status} `));
    }
  });

  it("end no process when the client of a CONNECT resets its connection", async () => {
    await using server = createServer();
    handleParserErrors(server);
    await once(server.listen(0, "127.0.0.1"), "listening");
    const { port } = server.address() as AddressInfo;
    const client = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    const accepted = once(server, "connection");
    client.write("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n");
    const [socket] = (await accepted) as [Socket];
    await once(client.resume(), "end");
    // Without a listener it would reach the process.
    const failed = once(socket, "error");
    client.resetAndDestroy();
    await failed;
    assert.ok(socket.listenerCount("error") > 0);
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
      assert.match(
        got.bytes.toString(),
        /^HTTP\/1\.1 408 .*"code":"request_timeout","message":"The request did not arrive in time"/s,
      );
    }
    const silent = await sendRaw(house.port, "", { timeoutMs: 10_000 });
    assert.notEqual(silent.ended, "timeout");
  });

  it("give way to a request beyond the limit of connections, the oldest of them first", async () => {
    await using house = await openAdminHouse({ limits: { connections: 3 } });
    const ended: number[] = [];
    const held = [0, 1, 2].map(async (number) => {
      await delay(100 * number);
      await sendRaw(house.port, "GET", { timeoutMs: 3_000 });
      ended.push(number);
    });
    await delay(500);
    assert.deepEqual(ended, []);
    assert.equal((await house.ask("GET", "/livez")).status, 200);
    await eventually(() => assert.deepEqual(ended, [0]));
    await Promise.all(held);
  });
});
