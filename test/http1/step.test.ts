import { describe, expect, it } from "vitest";
import { ResponseParser } from "../../src/http1/client/response-parser.ts";
import { type ReadResponse, readResponse } from "./backend-bytes.ts";

/** Reads the bytes of a backend in one piece, and once more byte by byte: the same comes of both. */
function read(text: string, method = "GET"): ReadResponse {
  const bytes = Buffer.from(text, "latin1");
  const whole = readResponse(method, [bytes]);
  const singly = Array.from(bytes, (byte) => Buffer.from([byte]));
  expect(readResponse(method, singly)).toEqual(whole);
  return whole;
}

const OK = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

describe("the bytes of a response", () => {
  it("are its head, its body, and what belongs to nobody", () => {
    expect(read(`${OK}evil`)).toEqual({
      interim: [],
      head: {
        status: 200,
        version: "1.1",
        rawHeaders: ["Content-Length", "2"],
        framing: 2,
        keepsAlive: true,
        keepAliveS: undefined,
      },
      body: "ok",
      end: "end",
      left: 4,
    });
  });

  it.each<[text: string, body: string, keepsAlive: boolean, end: string]>([
    ["HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", "", true, "end"],
    ["HTTP/1.1 200\r\nContent-Length: 3\r\n\r\nok", "ok", true, "more"],
    ["HTTP/1.1 200\r\n\r\nhello", "hello", false, "more"],
    ["HTTP/1.1 200\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", "a", false, "end"],
    ["HTTP/1.0 200\r\nContent-Length: 1\r\n\r\na", "a", false, "end"],
    ["HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", "a", true, "end"],
    ["HTTP/1.1 204\r\nContent-Length: 5\r\n\r\n", "", false, "end"],
    ["HTTP/1.1 204\r\nContent-Length: 0\r\n\r\n", "", true, "end"],
    ["HTTP/1.1 204\r\n\r\n", "", true, "end"],
    ["HTTP/1.1 304\r\n\r\n", "", true, "end"],
    ["HTTP/1.1 304\r\nTransfer-Encoding: chunked\r\n\r\n", "", false, "end"],
    ["HTTP/1.1 205\r\nContent-Length: 1\r\n\r\na", "a", true, "end"],
  ])("%j", (text, body, keepsAlive, end) => {
    const response = read(text);
    expect([response.body, response.head?.keepsAlive, response.end]).toEqual([
      body,
      keepsAlive,
      end,
    ]);
  });

  it("have no body where HEAD was asked for", () => {
    expect(read("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "HEAD")).toMatchObject({
      body: "",
      end: "end",
      head: { framing: 0, keepsAlive: false },
    });
  });

  it("may have interim ones ahead", () => {
    const hints = "HTTP/1.1 102\r\n\r\nHTTP/1.1 103 E\r\nLink: a\r\n\r\nHTTP/1.1 199\r\n\r\n";
    expect(read(hints + OK)).toMatchObject({ interim: [102, 103, 199], body: "ok", end: "end" });
  });

  it.each([
    ["HTTP/1.1 100 Continue\r\n\r\n", "unasked"],
    ["HTTP/1.1 101 Switching Protocols\r\n\r\n", "unasked"],
    ["HTTP/1.1 200\r\nContent-Length: x\r\n\r\n", "length"],
    ["HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\nx", "chunk"],
    ["HTTP/1.1 200\r\n:", "field"],
    ["HTTP/2", "version"],
  ])("%j… are wrong", (text, wrong) => {
    expect(read(text).end).toBe(`wrong: ${wrong}`);
  });

  it("are told to end with the connection from the head on, up to the next request", () => {
    const parser = new ResponseParser(100);
    const step = (text: string) => parser.step(Buffer.from(text), 0, text.length);
    expect(parser.untilClose).toBe(false);
    parser.start("GET");
    expect([step("HTTP/1.1 200\r\n"), parser.untilClose]).toEqual(["more", false]);
    expect([step("\r\n"), parser.untilClose]).toEqual(["head", true]);
    expect([step("abc"), parser.dataFrom, parser.dataTo]).toEqual(["data", 0, 3]);
    expect([step(""), parser.untilClose]).toEqual(["more", true]);
    parser.start("GET");
    expect([parser.untilClose, parser.head]).toEqual([false, undefined]);
  });

  it("may have as many bytes of trailers as of a head", () => {
    const end = (trailer: string) => {
      const parser = new ResponseParser(60);
      parser.start("GET");
      const text = `HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n${trailer}\r\n\r\n`;
      const bytes = Buffer.from(text);
      let at = 0;
      for (;;) {
        const step = parser.step(bytes, at, bytes.length);
        if (step !== "head") return step;
        at = parser.at;
      }
    };
    expect(end(`A:${"b".repeat(56)}`)).toBe("end");
    expect(end(`A:${"b".repeat(57)}`)).toBe("wrong");
  });
});
