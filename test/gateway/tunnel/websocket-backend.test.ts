import assert from "node:assert/strict";
import { createServer, type Socket } from "node:net";
import { afterAll, test } from "vitest";
import { webSocketAccept } from "../../../src/core/http/websocket.ts";
import { startByteUpstream } from "../../support/gateway/backend.ts";
import { startTestGateway, type TestGateway } from "../../support/gateway/house.ts";
import { watchStalls } from "../../support/in-time.ts";
import { eventually } from "../../support/poll.ts";
import { errorOf, openClient, rateLimitFieldsOf } from "../../support/wire/client.ts";
import { onlyValue, valuesOf } from "../../support/wire/response.ts";
import { handshakeOf, openWebSocket } from "../../support/wire/websocket.ts";

function nonceOf(head: string): string {
  return /sec-websocket-key: (.*)\r/i.exec(head)?.[1] ?? "";
}

/** A failing upstream is probed by connections that bring no byte: those are no requests. */
function withSeen(upstream: Awaited<ReturnType<typeof startByteUpstream>>) {
  return {
    origin: upstream.origin,
    get seen() {
      return upstream.received.filter(({ bytes }) => bytes().length > 0);
    },
    close: upstream.close,
  };
}

/** The backend's handler of the next connection, once the handshake's head has come. */
let serve: (socket: Socket, nonce: string) => void = () => undefined;
const backend = await startByteUpstream((socket, connection) => {
  const bytes = backend.received[connection - 1]?.bytes().toString("latin1") ?? "";
  serve(socket, nonceOf(bytes));
});
const house: TestGateway = await startTestGateway({
  upstream: withSeen(backend),
  environment: { api: null },
});
afterAll(() => house[Symbol.asyncDispose]());
const { key } = await house.issue({ plan: "business" });

function answersWith(text: string | ((nonce: string) => string)): void {
  serve = (socket, nonce) => {
    socket.write(Buffer.from(typeof text === "string" ? text : text(nonce), "latin1"));
  };
}

const SWITCH = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n";

const agreed = (nonce: string, more = "") =>
  `${SWITCH}Upgrade: websocket\r\nSec-WebSocket-Accept: ${webSocketAccept(nonce)}\r\n${more}\r\n`;

async function handshake() {
  await using client = await openClient(house.port);
  const answer = await client.ask({ key, fields: handshakeOf() });
  const ended = answer.status === 101 ? undefined : await client.ended;
  return { answer, ended, rest: Buffer.concat([answer.body, client.waiting()]) };
}

test("a refusal of the backend is passed on as an ordinary response, with our fields and our reason", async () => {
  answersWith(
    "HTTP/1.1 403 \x07Go away\r\nContent-Length: 4\r\nX-RateLimit-Limit: 7\r\nX-Why: \xe4\r\n" +
      "Keep-Alive: timeout=5\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n\r\nnope",
  );
  const { answer, ended } = await handshake();
  assert.equal(answer.status, 403);
  assert.equal(answer.reason, "Forbidden");
  assert.equal(answer.body.toString(), "nope");
  assert.equal(rateLimitFieldsOf(answer).limit, 1000);
  assert.equal(onlyValue(answer, "Connection"), "close");
  assert.equal(onlyValue(answer, "X-Why"), "\xe4");
  assert.match(onlyValue(answer, "X-Request-Id"), /^[0-9a-f-]{36}$/);
  assert.deepEqual([...valuesOf(answer, "Keep-Alive"), ...valuesOf(answer, "X-Hop")], []);
  assert.equal(ended, "closed");
  const entry = house.lines.find(({ status }) => status === 403);
  assert.deepEqual([entry?.source, entry?.charged, entry?.forwards], ["backend", 1, 1]);
});

test("a chunked 200 is passed on whole; one that breaks off ends the client's connection, and its line says after how many bytes", async () => {
  answersWith("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n");
  const { answer } = await handshake();
  assert.deepEqual([answer.status, answer.body.toString()], [200, "abc"]);

  serve = (socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
    setTimeout(() => socket.resetAndDestroy(), 50);
  };
  await using client = await openClient(house.port);
  const lines = house.lines.length;
  await assert.rejects(client.ask({ key, fields: handshakeOf() }), /ended|closed/);
  await eventually(() => assert.equal(house.lines.length, lines + 1));
  assert.match(
    house.lines[lines]?.why ?? "",
    /^upstream_aborted: \w+, after 3 of 10 bytes of the body$/,
  );
});

/** A gateway with a short deadline, which a busy machine would miss in the other tests. */
async function openHasty(
  upstream: Awaited<ReturnType<typeof startByteUpstream>>,
  limits: Readonly<Record<string, string>>,
) {
  const hasty = await startTestGateway({
    upstream: withSeen(upstream),
    environment: { api: null, limits },
  });
  return { hasty, own: (await hasty.issue({ plan: "business" })).key };
}

test("a body of the backend that stalls for idleTimeout is cut off", async () => {
  const stalls = (socket: Socket) => {
    socket.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc");
  };
  const { hasty, own } = await openHasty(await startByteUpstream(stalls), {
    idleTimeout: "500ms",
  });
  await using _ = hasty;
  await using client = await openClient(hasty.port);
  const startedMs = performance.now();
  const { stalledMs } = await watchStalls(() => {
    return assert.rejects(client.ask({ key: own, fields: handshakeOf() }), /ended|closed/);
  });
  const ms = performance.now() - startedMs;
  assert.ok(ms >= 450 && ms < 3_000 + stalledMs, `${ms} ms, ${stalledMs} stalled`);
});

test("a backend that says nothing is 504 upstream_timeout after responseTimeout, and let go", async () => {
  let gone = false;
  const upstream = await startByteUpstream((socket) => {
    socket.once("close", () => {
      gone = true;
    });
  });
  const { hasty, own } = await openHasty(upstream, { responseTimeout: "400ms" });
  await using _ = hasty;
  await using client = await openClient(hasty.port);
  const startedMs = performance.now();
  const { value: answer, stalledMs } = await watchStalls(() => {
    return client.ask({ key: own, fields: handshakeOf() });
  });
  const ms = performance.now() - startedMs;
  assert.equal(errorOf(answer).code, "upstream_timeout");
  assert.ok(ms >= 390 && ms < 2_500 + stalledMs, `${ms} ms, ${stalledMs} stalled`);
  await eventually(() => gone);
});

const WRONG: readonly (readonly [name: string, answer: string | ((nonce: string) => string)])[] = [
  ["without Sec-WebSocket-Accept", `${SWITCH}Upgrade: websocket\r\n\r\n`],
  [
    "with the accept of another key",
    `${SWITCH}Upgrade: websocket\r\nSec-WebSocket-Accept: x\r\n\r\n`,
  ],
  [
    "with two accepts",
    (nonce) => agreed(nonce, `Sec-WebSocket-Accept: ${webSocketAccept(nonce)}\r\n`),
  ],
  ["to h2c", (nonce) => agreed(nonce).replace("websocket", "h2c")],
  ["to nothing", "HTTP/1.1 101 Switching Protocols\r\n\r\n"],
  ["with too many fields", (nonce) => agreed(nonce, "X-Many: 1\r\n".repeat(100))],
  ["that is no HTTP", "SSH-2.0-OpenSSH\r\n\r\n"],
  ["with status 099", "HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n"],
  ["with status 600", "HTTP/1.1 600 Odd\r\nContent-Length: 0\r\n\r\n"],
  ["with another coding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"],
];

for (const [name, text] of WRONG) {
  test(`an answer ${name} is 502 upstream_invalid, and nothing of it goes on`, async () => {
    answersWith((nonce) => `${typeof text === "string" ? text : text(nonce)}\x81\x05hello`);
    const { answer, rest } = await handshake();
    assert.equal(answer.status, 502);
    assert.equal(errorOf(answer).code, "upstream_invalid");
    assert.ok(!rest.includes("hello"));
  });
}

test("a backend that hangs up is 502 upstream_unreachable", async () => {
  serve = (socket) => socket.destroy();
  const { answer } = await handshake();
  assert.equal(errorOf(answer).code, "upstream_unreachable");
});

test("the 101 has our fields in place of the backend's, and no field of another hop", async () => {
  answersWith(
    (nonce) =>
      `HTTP/1.1 101 Sure\r\nConnection: Upgrade, X-Hop\r\nX-Hop: 1\r\nUpgrade: WebSocket\r\n` +
      `Sec-WebSocket-Accept: ${webSocketAccept(nonce)}\r\nX-RateLimit-Limit: 7\r\nX-Request-Id: theirs\r\n` +
      `Content-Length: 5\r\nKeep-Alive: timeout=5\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\nX-Odd: \xe4\r\n\r\n\x81\x05hello`,
  );
  const { answer, rest } = await handshake();
  assert.deepEqual([answer.status, answer.reason], [101, "Switching Protocols"]);
  assert.equal(onlyValue(answer, "Connection"), "Upgrade");
  assert.equal(onlyValue(answer, "Upgrade"), "websocket");
  assert.equal(rateLimitFieldsOf(answer).limit, 1000);
  assert.match(onlyValue(answer, "X-Request-Id"), /^[0-9a-f-]{36}$/);
  assert.deepEqual(valuesOf(answer, "Set-Cookie"), ["a=1", "b=2"]);
  assert.equal(onlyValue(answer, "X-Odd"), "\xe4");
  for (const name of ["X-Hop", "Content-Length", "Keep-Alive"]) {
    assert.deepEqual(valuesOf(answer, name), [], name);
  }
  assert.ok(rest.equals(Buffer.from("\x81\x05hello", "latin1")), "early frames follow the head");
});

test("a 100 that nobody asked for is 502, and a 103 goes ahead of the 101, and of a refusal", async () => {
  answersWith((nonce) => `HTTP/1.1 100 Continue\r\n\r\n${agreed(nonce)}`);
  const { answer } = await handshake();
  assert.deepEqual([answer.status, errorOf(answer).code], [502, "upstream_invalid"]);
  const hint = "HTTP/1.1 103 Early Hints\r\nLink: </a>; rel=preload\r\n\r\n";
  answersWith((nonce) => `HTTP/1.1 102 Processing\r\n\r\n${hint.repeat(9)}${agreed(nonce)}`);
  const { answer: switched } = await handshake();
  const told = switched.interim.map((each) => `${each.status} ${onlyValue(each, "Link")}`);
  assert.deepEqual([switched.status, told], [101, Array(8).fill("103 </a>; rel=preload")]);
  answersWith(`${hint}HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n`);
  const { answer: declined } = await handshake();
  const statuses = declined.interim.map(({ status }) => status);
  assert.deepEqual([declined.status, statuses], [401, [103]]);
});

test("a 103 of over 100 fields ahead of the 101 is 502, and one of 100 goes on", async () => {
  const hint = (fields: number) =>
    `HTTP/1.1 103 Early Hints\r\n${"Link: </a>\r\n".repeat(fields)}\r\n`;
  answersWith((nonce) => hint(101) + agreed(nonce));
  const { answer } = await handshake();
  assert.deepEqual([answer.status, answer.interim], [502, []]);
  assert.equal(errorOf(answer).code, "upstream_invalid");
  answersWith((nonce) => hint(100) + agreed(nonce));
  const { answer: switched } = await handshake();
  assert.deepEqual([switched.status, switched.interim.length], [101, 1]);
});

test("what a client sends early reaches the backend after the 101, and not before", async () => {
  const early = Buffer.from("\x81\x85\0\0\0\0early", "latin1");
  let before = "";
  serve = (socket, nonce) => {
    setTimeout(() => {
      before = backend.received.at(-1)?.bytes().toString("latin1") ?? "";
      socket.write(agreed(nonce));
    }, 150);
  };
  await using client = await openClient(house.port);
  const asked = client.ask({ key, fields: handshakeOf() });
  client.write(early);
  assert.equal((await asked).status, 101);
  await eventually(() => backend.received.at(-1)?.bytes().includes(early));
  assert.ok(before.endsWith("\r\n\r\n") && !before.includes("early"));
});

test("what a client sends early to a backend that refuses is never forwarded", async () => {
  const next = `GET /v1/pets?smuggled HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n\r\n`;
  serve = (socket) => {
    setTimeout(() => socket.write("HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"), 100);
  };
  const asked = backend.received.length;
  await using client = await openClient(house.port);
  const answer = client.ask({ key, fields: handshakeOf() });
  client.write(next);
  assert.equal((await answer).status, 404);
  assert.equal(await client.ended, "closed");
  assert.equal(backend.received.length, asked + 1);
  assert.ok(!backend.received.at(-1)?.bytes().includes("smuggled"));
});

test("a backend that resets an open tunnel ends the client's side, within 100 ms or so", async () => {
  let reset: () => void = () => undefined;
  serve = (socket, nonce) => {
    socket.write(agreed(nonce));
    reset = () => socket.resetAndDestroy();
  };
  await using client = await openWebSocket(`${house.url}/v1/feed`, { key });
  const startedMs = performance.now();
  reset();
  const { value, stalledMs } = await watchStalls(() => client.closed);
  assert.equal(value.code, 1006);
  assert.ok(performance.now() - startedMs < 1_000 + stalledMs);
});

for (const [how, end] of [
  ["resets", (socket: Socket) => socket.resetAndDestroy()],
  ["ends", (socket: Socket) => socket.end()],
] as const) {
  test(`a tunnel whose backend ${how} is over at once, while the client only sends`, async () => {
    let open: Socket | undefined;
    serve = (socket, nonce) => {
      socket.write(agreed(nonce));
      open = socket;
    };
    const limits = { concurrent: 1 };
    const { key: own, account } = await house.issue({ plan: "business", limits });
    const isLogged = () => {
      return house.lines.some((line) => line.account === account && line.status === 101);
    };
    await using client = await openClient(house.port);
    assert.equal((await client.ask({ key: own, fields: handshakeOf() })).status, 101);
    const beat = setInterval(() => client.write("\x82\x84\0\0\0\0beat"), 20);
    const gone = new Promise((resolve) => client.socket.once("close", resolve));
    await eventually(() => backend.received.at(-1)?.bytes().includes("beat"));
    await using next = await openClient(house.port);
    assert.equal((await next.ask({ key: own })).status, 429);
    assert.ok(!isLogged());
    end(open as Socket);
    const { stalledMs } = await watchStalls(() => client.ended);
    const endedMs = performance.now();
    await eventually(isLogged);
    const ms = performance.now() - endedMs;
    assert.ok(ms < 500 + stalledMs, `${ms} ms, ${stalledMs} stalled`);
    assert.equal((await next.ask({ key: own, fields: handshakeOf() })).status, 101);
    if (how === "ends") await gone; // A while later: one of the two is enough.
    clearInterval(beat);
  });
}

test("a client that reads late and slowly and goes on sending gets everything that the backend sent before its end", async () => {
  const frame = Buffer.alloc(4 << 20, "z");
  serve = (socket, nonce) => {
    socket.write(agreed(nonce));
    socket.end(frame);
  };
  const { key: own, account } = await house.issue({ plan: "business" });
  const line = () => house.lines.find((each) => each.account === account);
  await using client = await openClient(house.port);
  const pause = () => client.socket.pause();
  client.socket.on("data", pause);
  const { body } = await client.ask({ key: own, fields: handshakeOf() });
  assert.equal(line(), undefined);
  const beat = setInterval(() => {
    client.write("\x82\x84\0\0\0\0beat");
    // With its line the gateway has sent all, and the client has 5 s for what the system still holds.
    if (line() !== undefined) client.socket.off("data", pause);
    client.socket.resume();
  }, 30);
  await client.ended.finally(() => clearInterval(beat));
  assert.equal(body.length + client.waiting().length, frame.length);
  await eventually(() => assert.equal(line()?.status, 101));
});

test("a client that resets while it waits, or in the tunnel, takes the backend's connection along", async () => {
  const gone: Promise<void>[] = [];
  const upstream = await startByteUpstream((socket) => {
    gone.push(new Promise((resolve) => socket.once("close", () => resolve())));
    const bytes = upstream.received.at(-1)?.bytes().toString("latin1") ?? "";
    if (gone.length === 2) socket.write(agreed(nonceOf(bytes)));
  });
  await using patient = await startTestGateway({
    upstream: withSeen(upstream),
    environment: { api: null, limits: { responseTimeout: "10m", idleTimeout: "10m" } },
  });
  const { key: own } = await patient.issue({ plan: "business" });
  for (const status of [499, 101]) {
    const before = gone.length;
    const client = await openClient(patient.port);
    const asked = client.ask({ key: own, fields: handshakeOf() }).catch(() => undefined);
    await eventually(() => gone.length > before);
    if (status === 101) await asked;
    client.socket.resetAndDestroy();
    await gone.at(-1);
    await asked;
    await eventually(() => assert.equal(patient.lines.at(-1)?.status, status));
  }
  await patient.law();
});

test("a backend that is not there is 502 upstream_unreachable, and nothing was forwarded", async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  const upstream = { origin: `http://127.0.0.1:${port}`, seen: [], close: async () => undefined };
  await using away = await startTestGateway({ upstream, environment: { api: null } });
  const { key: own } = await away.issue();
  await using client = await openClient(away.port);
  const answer = await client.ask({ key: own, fields: handshakeOf() });
  assert.equal(errorOf(answer).code, "upstream_unreachable");
  await away.law();
  assert.equal(away.lines[0]?.forwards, 0);
});

test("the law holds over all of it", () => house.law());

test("where cors is configured, a declined upgrade and a 101 carry each CORS field and Vary once, and ours", async () => {
  const page = "https://app.test";
  const theirs =
    "Access-Control-Allow-Origin: *\r\nAccess-Control-Allow-Credentials: true\r\n" +
    "Access-Control-Expose-Headers: X-Backend\r\nVary: Accept\r\nVary: Cookie\r\n";
  await using talks = await startTestGateway({
    upstream: { origin: backend.origin, seen: [], close: async () => undefined },
    environment: { api: null, cors: { origins: [page] } },
  });
  const issued = await talks.issue({ plan: "business" });
  for (const answer of [
    `HTTP/1.1 403 No\r\nContent-Length: 0\r\n${theirs}\r\n`,
    (nonce: string) => agreed(nonce, theirs),
  ]) {
    answersWith(answer);
    await using client = await openClient(talks.port);
    const fields: [string, string][] = [...handshakeOf(), ["Origin", page]];
    const told = await client.ask({ key: issued.key, fields });
    assert.equal(onlyValue(told, "Access-Control-Allow-Origin"), page);
    assert.deepEqual(valuesOf(told, "Access-Control-Allow-Credentials"), []);
    assert.match(onlyValue(told, "Access-Control-Expose-Headers"), /X-RateLimit-Window/);
    assert.deepEqual(valuesOf(told, "Vary"), ["Accept, Cookie, Origin"]);
  }
});
