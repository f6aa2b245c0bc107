import { describe, expect, it } from "vitest";
import { type LIMITS, Server, settled, waiting } from "./client-bytes.ts";

const GET = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n";
const POST = "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n";
const OK = /^HTTP\/1\.1 200 OK\r\nContent-Length: 2\r\nDate: [^\r]+ GMT\r\n\r\nok$/;

function targets(server: Server): string[] {
  return server.seen.map(({ head }) => head[1] as string);
}

describe("a client's connection", () => {
  it("reads a request, and writes its answer", () => {
    const server = new Server();
    server.line.receive(`${POST}hello`);
    expect(server.seen).toEqual([
      {
        head: ["POST", "/b", "1.1", "Host", "a", "Content-Length", "5"],
        framing: 5,
        body: "hello",
        complete: true,
        error: undefined,
      },
    ]);
    expect(server.line.sent).toMatch(OK);
    expect(server.connection.idle).toBe(true);
  });

  it("starts a pipelined request when the answer before it is out, in order", async () => {
    const server = waiting(GET + GET.replace("/a", "/b") + GET.replace("/a", "/c"));
    expect(targets(server)).toEqual(["/a"]);
    server.answer();
    expect(targets(server)).toEqual(["/a", "/b"]);
    server.line.stuck = true;
    server.answer();
    expect(targets(server)).toEqual(["/a", "/b"]);
    server.line.release();
    await settled();
    expect(targets(server)).toEqual(["/a", "/b", "/c"]);
  });

  it("interprets nothing behind a request before its answer, whatever it is", () => {
    const server = waiting(`${GET}\0\0\0`);
    expect([targets(server), server.refused]).toEqual([["/a"], []]);
    server.answer();
    expect(server.refused).toEqual(["line"]);
    expect(server.line.sent).toMatch(/ok.*HTTP\/1\.1 400 line\r\n/s);
    expect(server.line.writableEnded).toBe(true);
  });

  it("reads no byte as HTTP behind one that was wrong", () => {
    const server = new Server();
    server.line.receive("GET / HTTP/1.1\nHost: a\n\n");
    server.line.receive(GET);
    expect([server.seen, server.refused]).toEqual([[], ["line"]]);
    expect(server.connection.idle).toBe(false);
  });

  it.each([
    ["both lengths", "Content-Length: 5\r\nTransfer-Encoding: chunked", "length_and_coding"],
    ["a TAB within a coding", "Transfer-Encoding: chunked\t, chunked", "coding"],
    ["another coding", "Transfer-Encoding: gzip, chunked", "coding"],
    ["two equal lengths", "Content-Length: 5\r\nContent-Length: 5", "length"],
    ["a sign", "Content-Length: +5", "length"],
    ["a length beyond what counts exactly", "Content-Length: 9007199254740993", "length"],
  ])("reads nothing behind a head whose framing is unclear: %s", (_what, fields, why) => {
    const server = new Server();
    server.line.receive(`POST / HTTP/1.1\r\nHost: a\r\n${fields}\r\n\r\n${GET}`);
    server.line.receive(GET);
    expect(server.seen.map(({ framing, body }) => [framing, body])).toEqual([[why, ""]]);
    expect(server.line.sent).toContain("Connection: close\r\n");
    expect(server.line.writableEnded).toBe(true);
  });

  it.each([
    ["CONNECT", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n"],
    ["HTTP/1.0", "GET / HTTP/1.0\r\n\r\n"],
    ["Connection: close", "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"],
  ])("ends behind the answer to %s", (_what, request) => {
    const server = new Server();
    server.line.receive(request + GET);
    expect(server.seen).toHaveLength(1);
    expect(server.line.sent).toContain("Connection: close\r\n");
    expect(server.line.writableEnded).toBe(true);
  });

  it("reads on behind its last answer, however many bytes, so that the answer arrives", () => {
    const server = new Server();
    server.line.receive("broken\r\n");
    for (let i = 0; i < 1_000; i++) server.line.receive(Buffer.alloc(65_536));
    expect([server.line.destroyed, server.lingering]).toEqual([false, 1]);
    expect(server.seen).toHaveLength(0);
  });

  it("passes over empty lines ahead of a request, which do not make it busy", () => {
    const server = new Server();
    server.line.receive("\r\n\r\n");
    expect(server.connection.idle).toBe(true);
    server.line.receive(`\r\n${GET}`);
    expect(server.seen).toHaveLength(1);
    server.line.receive("\r\n".repeat(5_000));
    expect(server.refused).toEqual(["line_overflow"]);
  });

  it("is ended in order and at once, whether its client ends or not", () => {
    const server = waiting(GET);
    server.answer();
    server.connection.end();
    expect([server.line.writableEnded, server.line.destroyed]).toEqual([true, true]);
  });
});

describe("a client that is gone", () => {
  for (const behind of ["", "x", "\r\n", "broken\r\n", GET.repeat(40)]) {
    it(`is noticed with ${JSON.stringify(behind.slice(0, 12))} and ${behind.length} bytes behind its request`, async () => {
      const server = waiting(GET);
      const closed: boolean[] = [];
      server.answers[0]!.listener = { onDrain: () => {}, onClose: (done) => closed.push(done) };
      if (behind !== "") server.line.receive(behind);
      server.line.push(null);
      server.line.resume();
      await settled();
      expect([server.line.destroyed, closed, server.closed]).toEqual([true, [false], 1]);
    });
  }

  it("is noticed at once where it takes no more of its answer", async () => {
    const server = waiting(GET);
    server.line.stuck = true;
    server.answers[0]!.writeHead(200, []);
    server.answers[0]!.write(Buffer.from("some"));
    server.line.push(null);
    server.line.resume();
    await settled();
    expect([server.line.destroyed, server.closed]).toEqual([true, 1]);
  });

  it("that has said all gets an answer that was all written before", async () => {
    const server = waiting(GET);
    server.line.stuck = true;
    server.answer();
    server.line.push(null);
    server.line.resume();
    await settled();
    expect(server.line.destroyed).toBe(false);
    server.line.release();
    await settled();
    expect([server.line.writableEnded, server.closed]).toEqual([true, 1]);
    expect(server.line.sent).toMatch(OK);
  });

  it("is noticed in the middle of its body", async () => {
    const server = waiting(`${POST}he`);
    server.line.destroy(new Error("ECONNRESET"));
    await settled();
    expect([server.closed, server.seen[0]?.complete]).toEqual([1, false]);
  });

  it("is let go with a half-close where nothing is open", async () => {
    const server = new Server();
    server.line.receive(GET);
    server.line.push(null);
    server.line.resume();
    await settled();
    expect([server.line.writableEnded, server.closed]).toEqual([true, 1]);
    expect(server.line.sent).toMatch(OK);
  });
});

describe("bytes that wait", () => {
  it("stop the reading from a limit on, and are all served then", () => {
    const server = waiting(GET, { aheadBytesMax: 100 });
    for (let i = 0; i < 10 && !server.line.isPaused(); i++) server.line.receive(GET);
    expect(server.line.isPaused()).toBe(true);
    expect(server.connection.bytesAhead).toBe(4 * GET.length);
    for (let i = 0; i < 5; i++) server.answer();
    expect(server.line.isPaused()).toBe(false);
    expect(server.connection.bytesAhead).toBe(0);
    expect(server.seen).toHaveLength(5);
  });

  it("are read past behind the last answer, also where they had stopped the reading", () => {
    const server = waiting(GET, { aheadBytesMax: 10 });
    server.line.receive(GET);
    expect(server.line.isPaused()).toBe(true);
    server.answers[0]!.closesConnection = true;
    server.answer();
    expect([server.line.isPaused(), server.line.writableEnded]).toEqual([false, true]);
    expect(server.seen).toHaveLength(1);
    expect(server.connection.bytesAhead).toBe(0);
  });

  it("stay where they are until the body is taken, and hold the client back", () => {
    const server = new Server({ answersAtOnce: false, limits: { aheadBytesMax: 4 } });
    const bodies: string[] = [];
    server.onRequest = (request, writer) => {
      server.answers.push(writer);
      const sink = {
        onBodyData: (piece: Buffer) => {
          bodies.push(piece.toString());
          request.pause();
        },
        onBodyEnd: () => bodies.push("end"),
      };
      resume = () => (bodies.length === 0 ? request.read(sink) : request.resume());
    };
    let resume = () => {};
    server.line.receive(`${POST}he`);
    expect([bodies, server.line.isPaused()]).toEqual([[], false]);
    server.line.receive("ll");
    expect([bodies, server.line.isPaused()]).toEqual([[], true]);
    resume();
    expect([bodies, server.line.isPaused()]).toEqual([["he"], false]);
    server.line.receive("o");
    resume();
    resume();
    resume();
    expect(bodies).toEqual(["he", "ll", "o", "end"]);
  });

  it("bring their body's end at once to who reads late", () => {
    const server = new Server();
    let ended = 0;
    server.onRequest = (request) => {
      request.read({ onBodyData: () => {}, onBodyEnd: () => (ended += 1) });
    };
    server.line.receive(GET);
    expect(ended).toBe(1);
  });
});

describe("a body", () => {
  it("that was not taken is read past behind the answer, and the next request is served", () => {
    const server = new Server();
    const { onRequest } = server;
    server.onRequest = (_request, writer) => {
      server.answers.push(writer);
      server.answer();
      server.onRequest = onRequest;
    };
    server.line.receive(`${POST}he`);
    expect(server.line.sent).toMatch(OK);
    server.line.receive(`llo${GET}`);
    expect(server.seen.map(({ head }) => head.slice(0, 2))).toEqual([["GET", "/a"]]);
  });

  it("that turns out wrong is told once, with the data ahead of it, and answered", () => {
    const server = new Server();
    server.line.receive(
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n+",
    );
    server.line.receive(GET);
    expect(server.seen).toMatchObject([{ body: "abc", complete: false, error: "chunk" }]);
    expect(server.line.sent).toMatch(/^HTTP\/1\.1 400 .*Connection: close\r\n/s);
    expect(server.line.writableEnded).toBe(true);
  });

  it("that turns out wrong behind its answer ends the connection", () => {
    const server = new Server();
    server.onRequest = (_request, writer) => {
      server.answers.push(writer);
      server.answer();
    };
    server.line.receive("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    expect(server.line.writableEnded).toBe(false);
    server.line.receive(`zz\r\n${GET}`);
    expect(server.line.writableEnded).toBe(true);
    expect(server.line.sent).toMatch(OK);
    expect(server.answers).toHaveLength(1);
  });

  it("that turns out wrong while its answer waits is not read on meanwhile", () => {
    const server = new Server({ limits: { aheadBytesMax: 10 } });
    const broken: unknown[] = [];
    server.onRequestError = (request) => broken.push(request.error);
    let start = () => {};
    server.onRequest = (request, writer) => {
      server.answers.push(writer);
      start = () => request.read({ onBodyData: () => {}, onBodyEnd: () => {} });
    };
    server.line.receive("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    server.line.receive("zzzzzzzzzzzz");
    expect(server.line.isPaused()).toBe(true);
    start();
    expect([broken, server.line.isPaused()]).toEqual([["chunk"], false]);
    server.line.receive(Buffer.alloc(1_048_576));
    expect([server.line.destroyed, server.connection.bytesAhead]).toEqual([false, 0]);
    server.answer();
    expect(server.line.writableEnded).toBe(true);
  });

  it("counts its trailers with the fields of its head", () => {
    const head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n";
    const fields = "Host: a\r\nTransfer-Encoding: chunked\r\n".length;
    const trailer = "X-T: 1\r\n";
    const result = (limits: Partial<typeof LIMITS>) => {
      const server = new Server({ limits });
      server.line.receive(`${head}${trailer}\r\n`);
      return server.seen[0]?.error ?? "fine";
    };
    expect(result({ fieldBytesMax: fields + trailer.length })).toBe("fine");
    expect(result({ fieldBytesMax: fields + trailer.length - 1 })).toBe("trailer_overflow");
    expect(result({ fieldCountMax: 3 })).toBe("fine");
    expect(result({ fieldCountMax: 2 })).toBe("trailer_overflow");
  });

  it("may end the connection while it is taken", () => {
    const server = new Server();
    server.onRequest = (request, writer) => {
      const onBodyData = () => writer.cut();
      request.read({ onBodyData, onBodyEnd: () => expect.unreachable() });
    };
    server.line.receive(`${POST}hello${GET}`);
    expect([server.line.destroyed, server.seen]).toEqual([true, []]);
  });
});
