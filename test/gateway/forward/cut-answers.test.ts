import assert from "node:assert/strict";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { afterAll, test } from "vitest";
import { startByteUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway } from "../../support/gateway/house.ts";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { openAuthority } from "../../support/wire/certificates.ts";

let serve: (socket: Socket) => void = () => undefined;
const backend = await startByteUpstream((socket) => serve(socket));
const upstream = {
  origin: backend.origin,
  get seen() {
    return backend.received;
  },
  close: backend.close,
};
const house = await startTestGateway({ upstream });
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });

/** All bytes of the answer, how the connection ended, and after how long. */
function ask(version: string) {
  return answerOn(connect(house.port, "127.0.0.1"), version, key);
}

async function answerOn(socket: Socket, version: string, key: string) {
  let text = "";
  let error = "";
  socket.on("data", (chunk) => (text += chunk.toString("latin1")));
  socket.on("error", ({ message }) => (error = message));
  const closed = new Promise((resolve) => socket.once("close", resolve));
  const ended = new Promise((resolve) => socket.once("end", resolve));
  socket.write(
    `GET /v1/pets HTTP/${version}\r\nHost: gw.test\r\nConnection: close\r\nAuthorization: Bearer ${key}\r\n\r\n`,
  );
  await Promise.race([closed, ended]);
  const atMs = performance.now();
  socket.destroy();
  return { text, error, atMs };
}

const HALF = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nhalf of it";

test("an answer that is delimited by the close and ends in a reset never looks complete", async () => {
  let resetAtMs = 0;
  serve = (socket) => {
    socket.write(HALF);
    setTimeout(() => {
      resetAtMs = performance.now();
      socket.resetAndDestroy();
    }, 50);
  };
  const { value: modern, stalledMs } = await watchStalls(() => ask("1.1"));
  assert.match(modern.text, /half of it/);
  assert.ok(!modern.text.endsWith("0\r\n\r\n"), "the last chunk would say that it is whole");
  assert.ok(modern.atMs - resetAtMs < 100 + stalledMs, "at once");
  const old = await ask("1.0");
  assert.match(old.error, /ECONNRESET/, "to HTTP/1.0 a plain end would be the end of the body");
  await eventually(() => assert.equal(house.lines.length, 2));
  for (const { why } of house.lines) assert.match(why ?? "", /^upstream_aborted: ECONNRESET, /);
  await house.law({ connectionsFailed: true });
});

test("an HTTP/1.0 client gets a reset where the backend breaks off an answer, with a length too", async () => {
  for (const framing of ["Content-Length: 20", "Transfer-Encoding: chunked"]) {
    const piece = framing.startsWith("Content") ? "half" : "4\r\nhalf\r\n";
    serve = (socket) => socket.end(`HTTP/1.1 200 OK\r\n${framing}\r\n\r\n${piece}`);
    const old = await ask("1.0");
    assert.match(old.text, /half$/, framing);
    assert.match(old.error, /ECONNRESET/, framing);
    assert.equal((await ask("1.1")).error, "", framing);
  }
});

test("an answer that is delimited by the close and ends in good order is whole", async () => {
  serve = (socket) => socket.end(HALF);
  assert.match((await ask("1.1")).text, /half of it\r\n0\r\n\r\n$/);
  const old = await ask("1.0");
  assert.deepEqual([old.error, old.text.endsWith("half of it")], ["", true]);
});

test("over TLS too a cut answer ends in a reset, as many clients take any end for its end", async () => {
  using authority = openAuthority();
  const { cert, key: certKey } = authority.issue(["IP:127.0.0.1"]);
  await using secure = await startTestGateway({
    upstream: { ...upstream, close: async () => {} },
    environment: { tls: { cert: "./edge.pem", key: "./edge.key" } },
    files: { "edge.pem": cert, "edge.key": certKey },
  });
  const { key } = await secure.issue({ plan: "business" });
  serve = (socket) => {
    socket.write(HALF);
    setTimeout(() => socket.resetAndDestroy(), 50);
  };
  const client = connectTls({ port: secure.port, host: "127.0.0.1", ca: authority.ca });
  const old = await answerOn(client, "1.0", key);
  assert.match(old.text, /half of it$/);
  assert.match(old.error, /ECONNRESET/);
});

const CUT = "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf";

test("a client that leaves before the first byte of a body says nothing for a backend whose bodies break off", async () => {
  await using own = await startTestGateway({ upstream: { ...upstream, close: async () => {} } });
  const { key } = await own.issue({ plan: "business" });
  const cutOne = () => answerOn(connect(own.port, "127.0.0.1"), "1.1", key);
  serve = (socket) => socket.end(CUT);
  for (let i = 0; i < 4; i++) await cutOne();
  const asked = Promise.withResolvers<void>();
  serve = () => asked.resolve();
  const leaving = connect(own.port, "127.0.0.1");
  leaving.write(`GET /v1/pets HTTP/1.1\r\nHost: gw.test\r\nAuthorization: Bearer ${key}\r\n\r\n`);
  await asked.promise;
  leaving.destroy();
  await eventually(() => assert.equal(own.lines.at(-1)?.status, 499));
  serve = (socket) => socket.end(CUT);
  await cutOne();
  await eventually(() => assert.ok(own.said.some(({ kind }) => kind === "upstream_down")));
});
