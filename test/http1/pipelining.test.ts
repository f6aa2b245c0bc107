import { describe, expect, it } from "vitest";
import type { IncomingRequest } from "../../src/http1/server/incoming-request.ts";
import { Server, serve, serveLate, settled } from "./client-bytes.ts";

const GET = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
const POST = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";

/** A server that keeps the requests themselves, and answers when it is told to. */
function keeping(limits: ConstructorParameters<typeof Server>[0] = {}) {
  const server = new Server({ answersAtOnce: false, ...limits });
  const requests: IncomingRequest[] = [];
  const { onRequest } = server;
  server.onRequest = (request, writer) => {
    requests.push(request);
    onRequest.call(server, request, writer);
  };
  return { server, line: server.line, requests };
}

describe("a request", () => {
  it("is pipelined where it was sent before the answer ahead of it was out", () => {
    const { server, line, requests } = keeping();
    line.receive(GET + GET);
    server.answer();
    line.receive(GET);
    server.answer();
    server.answer();
    line.receive(GET);
    expect(requests.map(({ pipelined }) => pipelined)).toEqual([false, true, true, false]);
  });

  it("is pipelined behind one that is answered as soon as its head is read", () => {
    const { line, requests } = keeping({ answersAtOnce: true });
    line.receive(GET + GET.slice(0, 3));
    line.receive(GET.slice(3));
    line.receive(GET + GET + GET);
    line.receive(GET);
    expect(requests.map(({ pipelined }) => pipelined)).toEqual([
      ...[false, false],
      ...[false, true, true],
      false,
    ]);
  });

  it("holds its client back at the very limit of what may wait, and not before", () => {
    const { server, line } = keeping({ limits: { aheadBytesMax: 2 * GET.length } });
    line.receive(GET);
    line.receive(GET + GET.slice(0, -1));
    expect([line.isPaused(), server.connection.bytesAhead]).toEqual([false, 2 * GET.length - 1]);
    line.receive("\n");
    expect(line.isPaused()).toBe(true);
    server.answer();
    expect([line.isPaused(), server.connection.bytesAhead]).toEqual([false, GET.length]);
  });

  it("brings no piece that is empty, and its end once", () => {
    const { server, line } = keeping();
    const told: string[] = [];
    server.onRequest = (request) => {
      const onBodyData = (piece: Buffer) => told.push(piece.toString());
      request.read({ onBodyData, onBodyEnd: () => told.push("end") });
    };
    line.receive("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (const piece of ["3", "\r\n", "abc", "\r\n", "0\r\n", "A: b\r\n", "\r\n"])
      line.receive(piece);
    expect(told).toEqual(["abc", "end"]);
  });

  it("is wanted once: to want it again changes nothing", () => {
    const { server, line, requests } = keeping();
    line.receive(`${POST}he`);
    requests[0]!.resume();
    requests[0]!.resume();
    line.receive(`llo${GET}`);
    expect(server.seen).toMatchObject([{ body: "hello", complete: true }]);
    requests[0]!.discard();
    server.answer();
    expect(requests).toHaveLength(2);
  });

  it("is not read on where it waits, though more of it comes", () => {
    const { server, line, requests } = keeping();
    line.receive(`${POST}h`);
    requests[0]!.pause();
    line.receive("ell");
    line.receive("o");
    expect([server.seen[0]!.body, server.connection.bytesAhead]).toEqual(["h", 4]);
    requests[0]!.resume();
    expect([server.seen[0]!.body, server.connection.bytesAhead]).toEqual(["hello", 0]);
  });
});

describe("requests in pieces", () => {
  const CHUNKED =
    "PUT /c HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x\r\nde\r\n0\r\n\r\n";
  const text = `${GET}${POST}hello\r\n${CHUNKED}${GET}`;
  const pieces = (size: number) =>
    Array.from({ length: Math.ceil(text.length / size) }, (_, i) =>
      Buffer.from(text.slice(i * size, (i + 1) * size)),
    );

  it("are the same requests as in one, answered at once or late", () => {
    const whole = serve([Buffer.from(text)]);
    expect(whole).toMatchObject({
      seen: [
        { head: ["GET", "/a", "1.1", "Host", "a"], framing: 0, body: "", complete: true },
        { framing: 5, body: "hello", complete: true },
        { framing: "chunked", body: "abcde", complete: true },
        { framing: 0, complete: true },
      ],
      refused: [],
      destroyed: false,
    });
    for (const size of [1, 2, 3, 7, 50, text.length]) {
      expect(serve(pieces(size))).toEqual(whole);
      expect(serveLate(pieces(size))).toEqual(whole);
    }
  });
});

describe("a connection", () => {
  it("is not idle when it is closed, nor behind its last answer", async () => {
    const closed = new Server();
    expect(closed.connection.idle).toBe(true);
    closed.line.destroy();
    await settled();
    expect(closed.connection.idle).toBe(false);
    const last = new Server();
    last.line.receive(GET.replace("1.1", "1.0"));
    expect([last.line.writableEnded, last.connection.idle]).toEqual([true, false]);
  });

  it("sends what answers bytes that are no request as latin1", () => {
    const { server, line } = keeping();
    server.errorResponse = () => "HTTP/1.1 400 \xe9\r\n\r\n";
    line.receive("\0");
    expect(line.sent).toBe("HTTP/1.1 400 \xe9\r\n\r\n");
  });

  it("has nobody to tell that the client takes more where no request is under way", () => {
    const { server, line } = keeping();
    line.emit("drain");
    line.receive(GET);
    server.answer();
    line.emit("drain");
    line.receive(GET);
    server.answer();
    expect(server.seen).toHaveLength(2);
  });

  it("tells its answer once that it closed, and its server", async () => {
    const { server, line } = keeping();
    line.receive(GET);
    let closed = 0;
    server.answers[0]!.listener = { onDrain: () => {}, onClose: () => (closed += 1) };
    server.answer();
    line.destroy();
    await settled();
    expect([closed, server.closed]).toEqual([1, 1]);
  });
});
