import { describe, expect, it } from "vitest";
import type { ResponseWriter } from "../../src/http1/server/response-writer.ts";
import { Server } from "./client-bytes.ts";

/** The answer to a request, and the line that it goes out on. */
function answerTo(request = "GET / HTTP/1.1\r\nHost: a\r\n\r\n") {
  const server = new Server({ answersAtOnce: false });
  server.line.receive(request);
  return { server, line: server.line, writer: server.answers[0] as ResponseWriter };
}

const OLD = "GET / HTTP/1.0\r\n\r\n";
const HEAD = "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n";
const DATED = ["Date", "Thu, 01 Jan 1970 00:00:00 GMT"];

describe("an answer", () => {
  it("goes out in one write, dated, with its length", () => {
    const { line, writer } = answerTo();
    let writes = 0;
    line.on("write", () => undefined);
    const write = line._write.bind(line);
    line._write = (...args) => {
      writes += 1;
      write(...args);
    };
    const beforeMs = Date.now();
    writer.writeHead(200, ["X-A", "b", "Content-Length", "2"]);
    expect([line.sent, writer.headWritten]).toEqual(["", true]);
    writer.end("ok");
    const date = /\r\nDate: ([^\r]+ GMT)\r\n/.exec(line.sent)?.[1] as string;
    expect(Date.parse(date)).toBeGreaterThan(beforeMs - 2_000);
    expect(Date.parse(date)).toBeLessThanOrEqual(Date.now());
    expect(line.sent).toMatch(/^HTTP\/1\.1 200 OK\r\nX-A: b\r\nContent-Length: 2\r\nDate/);
    expect([writes, writer.ended, writer.finished]).toEqual([1, true, true]);
  });

  it.each([
    ["its length", ["Content-Length", "5"], "\r\n\r\nhello"],
    ["chunks", [], "Transfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"],
  ])("streams with %s, and the date of a backend", (_what, fields, sent) => {
    const { line, writer } = answerTo();
    writer.writeHead(200, [...fields, ...DATED]);
    expect(writer.write(Buffer.from("hel"))).toBe(true);
    expect(writer.write(Buffer.alloc(0))).toBe(true);
    writer.write(Buffer.from("lo"));
    writer.end();
    expect(line.sent.endsWith(sent)).toBe(true);
    expect(line.sent.match(/Date:/g)).toHaveLength(1);
  });

  it.each([true, false])("holds nothing up where a piece of 64 KiB is taken: %s", (isTaken) => {
    const { line, writer } = answerTo();
    line.stuck = !isTaken;
    writer.writeHead(200, ["Content-Length", "65536"]);
    expect([writer.write(Buffer.alloc(65_536)), writer.isFlushed]).toEqual([isTaken, isTaken]);
  });

  it("ends chunks behind a last piece", () => {
    const { line, writer } = answerTo();
    writer.writeHead(299, DATED);
    writer.end("ok");
    expect(line.sent).toMatch(/^HTTP\/1\.1 299 \r\n.*\r\n\r\n2\r\nok\r\n0\r\n\r\n$/s);
  });

  it("to HTTP/1.0 without a length ends with the connection", () => {
    const { line, writer } = answerTo(OLD);
    writer.writeHead(200, []);
    writer.write(Buffer.from("hello"));
    writer.end();
    expect(line.sent).toMatch(/\r\nConnection: close\r\n\r\nhello$/);
    expect(line.sent).not.toContain("chunked");
    expect(line.writableEnded).toBe(true);
  });

  it("that has no body by its status or method sends none, and says what it is told", () => {
    for (const [request, status] of [
      [HEAD, 200],
      [undefined, 204],
      [undefined, 304],
    ] as const) {
      const { line, writer } = answerTo(request);
      writer.writeHead(status, status === 204 ? [] : ["Content-Length", "5"]);
      writer.write(Buffer.from("hello"));
      expect(line.sent).toMatch(/\r\n\r\n$/);
      writer.end("hello");
      expect(line.sent).toMatch(/\r\n\r\n$/);
      expect(line.sent).not.toMatch(/hello|chunked/);
      expect([writer.finished, line.destroyed]).toEqual([true, false]);
    }
  });

  it("flushes its head once, where the body is yet to come", () => {
    const { line, writer } = answerTo();
    writer.writeHead(200, ["Content-Length", "2"]);
    writer.flush();
    writer.flush();
    expect(line.sent.match(/HTTP/g)).toHaveLength(1);
    writer.end("ok");
    expect(line.sent).toMatch(/\r\n\r\nok$/);
  });

  it("lets a client continue, and hints, ahead of its head", () => {
    const { line, writer } = answerTo();
    writer.writeContinue();
    writer.writeInterim(103, ["Link", "</a>"]);
    const hint = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n";
    expect(line.sent).toBe(`HTTP/1.1 100 Continue\r\n\r\n${hint}`);
    expect(writer.headWritten).toBe(false);
  });

  it("sends its fields and its last piece as latin1", () => {
    const { line, writer } = answerTo();
    writer.writeInterim(103, ["A", "\xe9"]);
    writer.writeHead(200, ["A", "\xe8", "Content-Length", "1", ...DATED]);
    writer.flush();
    writer.end("\xea");
    expect(line.sent.match(/[\x80-\xff]/g)).toEqual(["\xe9", "\xe8", "\xea"]);
  });

  it("refuses a field that would end its line, and sends nothing of it", () => {
    const { line, writer } = answerTo();
    expect(() => writer.writeHead(200, ["X-A", "b\nX-B: c"])).toThrow(/cannot be sent/);
    expect(() => writer.writeInterim(103, ["X A", "b"])).toThrow(/cannot be sent/);
    expect([line.sent, writer.headWritten]).toEqual(["", false]);
  });

  it("ends the connection where its body does not keep its length", () => {
    for (const bytes of ["hell", "hello!"]) {
      for (const write of [true, false]) {
        const { server, line, writer } = answerTo();
        writer.writeHead(200, ["Content-Length", "5"]);
        if (write) writer.write(Buffer.from(bytes));
        writer.end(write ? "" : bytes);
        expect([line.destroyed, writer.finished]).toEqual([true, false]);
        expect(line.sent).not.toContain("hello!");
        expect(server.seen).toHaveLength(1);
      }
    }
  });

  it("takes nothing behind its end", () => {
    const { line, writer } = answerTo();
    writer.writeHead(200, ["Content-Length", "2"]);
    writer.end("ok");
    const { sent } = line;
    expect(writer.write(Buffer.from("more"))).toBe(true);
    writer.end("more");
    expect(line.sent).toBe(sent);
    expect([line.destroyed, writer.isFlushed]).toEqual([false, true]);
  });

  it("is cut by a reset only to a client of HTTP/1.0, and only if it has a body", () => {
    const cut = (request: string | undefined, fields: string[]) => {
      const { line, writer } = answerTo(request);
      writer.writeHead(200, fields);
      writer.write(Buffer.from("hel"));
      writer.cut();
      expect(line.destroyed).toBe(true);
      return line.reset;
    };
    expect(cut(OLD, [])).toBe(true);
    expect(cut(OLD, ["Content-Length", "5"])).toBe(true);
    expect(cut(undefined, [])).toBe(false);
    expect(cut(undefined, ["Content-Length", "5"])).toBe(false);
    expect(cut("HEAD / HTTP/1.0\r\n\r\n", [])).toBe(false);
    const none = answerTo(OLD);
    none.writer.cut();
    expect([none.line.destroyed, none.line.reset]).toEqual([true, true]);
    const takenBack = answerTo(OLD);
    takenBack.writer.writeHead(204, []);
    takenBack.writer.discardHead();
    takenBack.writer.cut();
    expect([takenBack.line.destroyed, takenBack.line.reset]).toEqual([true, true]);
  });

  it("tells its listener that the client takes more, and how it closed, once", async () => {
    const { server, line, writer } = answerTo();
    const told: unknown[] = [];
    writer.listener = { onDrain: () => told.push("drain"), onClose: (done) => told.push(done) };
    writer.writeHead(200, []);
    line.stuck = true;
    expect(writer.write(Buffer.alloc(100_000))).toBe(false);
    line.release();
    await new Promise((resolve) => setImmediate(resolve));
    expect(told).toEqual(["drain"]);
    line.stuck = true;
    writer.write(Buffer.alloc(100_000));
    writer.end();
    expect([writer.ended, writer.finished]).toEqual([true, false]);
    line.release();
    await new Promise((resolve) => setImmediate(resolve));
    line.destroy();
    await new Promise((resolve) => setImmediate(resolve));
    expect(told).toEqual(["drain", true]);
    expect(server.closed).toBe(1);
  });

  it("is not finished where the connection is gone before the client took it", async () => {
    const { line, writer } = answerTo();
    const told: unknown[] = [];
    writer.listener = { onDrain: () => {}, onClose: (done) => told.push(done) };
    line.stuck = true;
    writer.writeHead(200, []);
    writer.write(Buffer.alloc(100_000));
    writer.end();
    line.destroy();
    line.release();
    await new Promise((resolve) => setImmediate(resolve));
    expect(told).toEqual([false]);
  });

  it("may end the connection by the wish of its server, and closes once", async () => {
    const { line, writer } = answerTo();
    const told: unknown[] = [];
    writer.listener = { onDrain: () => {}, onClose: (done) => told.push(done) };
    writer.closesConnection = true;
    writer.writeHead(200, ["Content-Length", "0"]);
    writer.end();
    expect(line.sent).toContain("Connection: close\r\n");
    expect(line.writableEnded).toBe(true);
    line.destroy();
    await new Promise((resolve) => setImmediate(resolve));
    expect(told).toEqual([true]);
  });

  it("needs nobody to listen", async () => {
    const { line, writer } = answerTo();
    writer.writeHead(200, []);
    line.stuck = true;
    writer.write(Buffer.alloc(100_000));
    line.release();
    await new Promise((resolve) => setImmediate(resolve));
    writer.end();
    expect(writer.finished).toBe(true);
  });

  it("may be another one as long as its head has not gone out", () => {
    const length = ["Content-Length", "2"];
    const others: readonly [status: number, fields: string[], sent: RegExp][] = [
      [204, [], /^HTTP\/1\.1 204 No Content\r\nDate: [^\r]+\r\n\r\n$/],
      [200, [], /\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n$/],
      [200, length, /^HTTP\/1\.1 200 OK\r\nContent-Length: 2\r\nDate: [^\r]+\r\n\r\nok$/],
    ];
    for (const [first, firstFields] of others) {
      for (const [status, fields, sent] of others) {
        const { line, writer } = answerTo();
        writer.writeHead(first, firstFields);
        expect([writer.discardHead(), writer.headWritten]).toEqual([true, false]);
        expect(writer.discardHead()).toBe(false);
        writer.writeHead(status, fields);
        writer.end("ok");
        expect(line.sent).toMatch(sent);
        expect([writer.finished, line.destroyed]).toEqual([true, false]);
      }
    }
  });

  it("stays as it is once some of it has gone out", () => {
    const { line, writer } = answerTo();
    expect(writer.discardHead()).toBe(false);
    writer.writeHead(200, ["Content-Length", "2"]);
    writer.flush();
    expect([writer.discardHead(), writer.status]).toEqual([false, 200]);
    writer.end("ok");
    expect(line.sent).toMatch(/^HTTP\/1\.1 200 OK\r\n.*\r\n\r\nok$/s);
  });

  it("is flushed once the system has taken all that was written", async () => {
    const { line, writer } = answerTo();
    writer.writeHead(200, ["Content-Length", "3"]);
    expect(writer.isFlushed).toBe(false);
    writer.write(Buffer.from("ok"));
    expect(writer.isFlushed).toBe(true);
    line.stuck = true;
    writer.write(Buffer.from("!"));
    expect(writer.isFlushed).toBe(false);
    line.release();
    await new Promise((resolve) => setImmediate(resolve));
    expect(writer.isFlushed).toBe(true);
  });

  it("knows its length and its date by their names alone, in any case", () => {
    const { line, writer } = answerTo();
    writer.writeHead(200, [
      "content-LENGTH",
      "2",
      "X-Content-Leng",
      "7",
      "X-A",
      "1",
      "DATE",
      "now",
    ]);
    writer.end("ok");
    expect(line.sent).toBe(
      "HTTP/1.1 200 OK\r\ncontent-LENGTH: 2\r\nX-Content-Leng: 7\r\nX-A: 1\r\nDATE: now\r\n\r\nok",
    );
    const undated = answerTo();
    undated.writer.writeHead(200, ["ETag", "x", "Content-Length", "0"]);
    undated.writer.end();
    expect(undated.line.sent).toContain("\r\nDate: ");
  });

  it("writes no piece that is empty, and a head alone where there is nothing else", () => {
    const { line, writer } = answerTo();
    const pieces: string[] = [];
    const write = line._write.bind(line);
    line._write = (chunk, ...rest) => {
      pieces.push(chunk.toString("latin1"));
      write(chunk, ...rest);
    };
    writer.writeHead(200, [...DATED]);
    writer.write(Buffer.alloc(0));
    expect(pieces).toHaveLength(1);
    writer.write(Buffer.from("a"));
    writer.end();
    expect(pieces.slice(1).join("|")).toBe("1\r\n|a|\r\n|0\r\n\r\n");
  });
});
