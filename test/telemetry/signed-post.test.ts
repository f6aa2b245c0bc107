import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { createServer, type IncomingHttpHeaders, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { it, onTestFinished, vi } from "vitest";
import { postSigned } from "../../src/telemetry/log/signed-post.ts";

/** Why a message was not accepted; undefined if it was. */
async function whyNot(...args: Parameters<typeof postSigned>): Promise<string | undefined> {
  return (await postSigned(...args))?.why;
}

const KEY = Buffer.from("a key of the receiver");
const SECRET = `whsec_${KEY.toString("base64")}`;
const MESSAGE = { id: "msg_1", type: "application/json", body: '{"a":"ü"}' };

/** Ports that the Fetch standard blocks (2.9, port blocking), because of what browsers are made to send. */
const BLOCKED_PORTS = [10_080, 6697, 6679, 6669, 6668, 6667, 6666, 6665, 6566, 6000, 5061, 5060];

/** Listens on the first of `ports` that is free. */
async function openReceiver(listener: RequestListener, ports: readonly number[] = [0]) {
  const server = createServer(listener);
  for (const port of ports) {
    const opened = Promise.withResolvers<boolean>();
    server.once("error", () => opened.resolve(false));
    server.listen(port, "127.0.0.1", () => opened.resolve(true));
    if (await opened.promise) break;
  }
  assert.ok(server.listening);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/in`,
    secret: SECRET,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

it("a message is posted as it is, with its id, its second and a signature over both and the body", async () => {
  const seen: { method?: string | undefined; headers: IncomingHttpHeaders; body: string }[] = [];
  await using receiver = await openReceiver((request, response) => {
    let body = "";
    request.setEncoding("utf8").on("data", (piece) => {
      body += piece;
    });
    request.on("end", () => {
      seen.push({ method: request.method, headers: request.headers, body });
      response.writeHead(204).end();
    });
  });
  assert.equal(await whyNot(receiver, MESSAGE, 1_790_000_000_999), undefined);
  const [{ method, headers, body } = assert.fail()] = seen;
  assert.deepEqual([method, headers["content-type"], body], ["POST", MESSAGE.type, MESSAGE.body]);
  const [id, timestamp] = [headers["webhook-id"], headers["webhook-timestamp"]];
  assert.deepEqual([id, timestamp], ["msg_1", "1790000000"]);
  const signed = createHmac("sha256", KEY).update(`${id}.${timestamp}.${body}`).digest("base64");
  assert.equal(headers["webhook-signature"], `v1,${signed}`);
  assert.equal(headers.connection, "close");
});

it.for([
  [200, undefined],
  [299, undefined],
  [300, "the receiver answered 300"],
  [404, "the receiver answered 404"],
  [503, "the receiver answered 503"],
] as const)("an answer of %s is %s", async ([status, why]) => {
  await using receiver = await openReceiver((request, response) => {
    request.resume().on("end", () => response.writeHead(status).end("some text"));
  });
  assert.equal(await whyNot(receiver, MESSAGE, 0), why);
});

it("a receiver that is not there cannot be reached, and its address is not told", async () => {
  const gone = { url: "", secret: SECRET };
  {
    await using once = await openReceiver(() => {});
    gone.url = once.url;
  }
  assert.equal(await whyNot(gone, MESSAGE, 0), "the receiver cannot be reached (ECONNREFUSED)");
});

it("a receiver that sends elsewhere has answered, and the other place is not asked", async () => {
  let askedThere = 0;
  await using there = await openReceiver((request, response) => {
    askedThere += 1;
    request.resume().on("end", () => response.writeHead(204).end());
  });
  await using moving = await openReceiver((request, response) => {
    request.resume().on("end", () => response.writeHead(307, { Location: there.url }).end());
  });
  assert.equal(await whyNot(moving, MESSAGE, 0), "the receiver answered 307");
  assert.equal(askedThere, 0);
});

it("a receiver that closes without an answer is said to have sent none", async () => {
  await using receiver = await openReceiver((request) => request.socket.destroy());
  const why = await whyNot(receiver, MESSAGE, 0);
  assert.equal(why, "the receiver sent no valid answer (ECONNRESET)");
});

it("a receiver whose TLS cannot be agreed on cannot be reached, though its port can", async () => {
  await using receiver = await openReceiver(() => assert.fail("it speaks no TLS"));
  const url = receiver.url.replace("http:", "https:");
  const why = await whyNot({ ...receiver, url }, MESSAGE, 0);
  assert.match(String(why), /^the receiver cannot be reached \(/);
});

it("a receiver that switches to another protocol has sent no answer", async () => {
  await using receiver = await openReceiver((request) => {
    request.socket.write(
      "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    );
  });
  const why = await whyNot(receiver, MESSAGE, 0);
  assert.match(String(why), /^the receiver sent no valid answer/);
});

it("a receiver that answers with no status of HTTP has not accepted", async () => {
  await using receiver = await openReceiver((request) => {
    request.socket.end("HTTP/1.1 099 Odd\r\nContent-Length: 0\r\n\r\n");
  });
  assert.equal(await whyNot(receiver, MESSAGE, 0), "the receiver answered 99");
});

it("a receiver may listen on a port that browsers block", async () => {
  await using receiver = await openReceiver((request, response) => {
    request.resume().on("end", () => response.writeHead(204).end());
  }, BLOCKED_PORTS);
  assert.equal(await whyNot(receiver, MESSAGE, 0), undefined);
});

it("a receiver has ten seconds for its answer", async () => {
  onTestFinished(() => void vi.restoreAllMocks());
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  const spied = vi.spyOn(AbortSignal, "timeout").mockImplementation(() => timeout(20));
  await using receiver = await openReceiver(() => {});
  const why = await whyNot(receiver, MESSAGE, 0, new AbortController().signal);
  assert.equal(why, "the receiver did not answer within 10 s");
  assert.deepEqual(spied.mock.calls, [[10_000]]);
});

it("a wait for an answer is cut when it is said", async () => {
  const cut = new AbortController();
  await using receiver = await openReceiver(() => cut.abort());
  const why = await whyNot(receiver, MESSAGE, 0, cut.signal);
  assert.equal(why, "the wait for an answer was cut");
});

it("an answer that never ends is taken by its head, and its connection is let go", async () => {
  const closed = Promise.withResolvers<void>();
  await using receiver = await openReceiver((request, response) => {
    response.once("close", () => closed.resolve());
    request.resume().on("end", () => response.writeHead(200).write("and so on"));
  });
  assert.equal(await whyNot(receiver, MESSAGE, 0), undefined);
  const startMs = performance.now();
  await closed.promise;
  // Without that it would be let go only when the 10 s of an answer are over.
  assert.ok(performance.now() - startMs < 8_000);
});
