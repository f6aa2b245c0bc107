import { describe, expect, it } from "vitest";
import { ResponseParser } from "../../src/http1/client/response-parser.ts";
import {
  answering,
  connectionTo,
  get,
  OK,
  saying,
  send,
  startBackend,
  Told,
} from "./scripted-backend.ts";

describe("a response", () => {
  it("that is over, or wrong, stays so", () => {
    for (const [text, end] of [
      [OK, "end"],
      ["x", "wrong"],
    ] as const) {
      const parser = new ResponseParser(100);
      parser.start("GET");
      const bytes = Buffer.from(text + OK);
      let at = 0;
      for (let steps = 0; steps < 6; steps++) {
        parser.step(bytes, at, bytes.length);
        at = parser.at;
      }
      expect(parser.step(bytes, at, bytes.length)).toBe(end);
      expect(parser.at).toBe(end === "end" ? OK.length : 0);
    }
  });

  it.each([
    ["of HEAD has no body", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"],
    ["of 304 has none", "GET", "HTTP/1.1 304 Not Modified\r\nETag: a\r\n\r\n"],
  ])("%s", async (_what, method, answer) => {
    await using backend = await startBackend(answering(answer, OK));
    const connection = connectionTo(backend.port);
    expect((await send(connection, { method })).body).toBe("");
    expect((await send(connection)).reused).toBe(true);
    connection.close();
  });

  it("is told after the interim ones, each for itself", async () => {
    const told = await get(saying(`HTTP/1.1 102\r\n\r\nHTTP/1.1 103 E\r\nLink: a\r\n\r\n${OK}`));
    expect(told.events.slice(3)).toEqual(["interim 102", "interim 103", "head 200", "data", "end"]);
  });

  it.each([100, 101])("with an interim %i, which nobody asked for, is invalid", async (status) => {
    const told = await get(saying(`HTTP/1.1 ${status} C\r\n\r\n${OK}`));
    expect(told.failure).toEqual({ kind: "invalid", why: "unasked", sent: true, reused: false });
  });

  it("may come behind any number of interim ones", async () => {
    const hints = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1_000);
    expect(await get(saying(hints + OK))).toMatchObject({ body: "ok", failure: undefined });
  });

  it("brings many small chunks of one read as one piece", async () => {
    const chunks = "1\r\nx\r\n".repeat(100);
    const told = await get(
      saying(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`),
    );
    expect([told.body, told.pieces]).toEqual(["x".repeat(100), 1]);
  });

  it("may have a signature with each of its chunks, however many there are, of up to 16 KiB", async () => {
    const told = async (chunks: string) =>
      get(saying(`HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`));
    const signed = (bytes: number) => `1;${"a".repeat(bytes - 1)}\r\nx\r\n`;
    expect((await told(signed(90).repeat(400))).body).toBe("x".repeat(400));
    expect((await told(signed(16_384).repeat(2))).body).toBe("xx");
    expect((await told(signed(16_385))).failure?.why).toBe("extension_overflow");
  });

  it.each([
    ["no length, ended", "HTTP/1.1 200 OK\r\n\r\nhello", "end", undefined],
    ["no length, reset", "HTTP/1.1 200 OK\r\n\r\nhello", "reset", "cut"],
    ["a length, ended early", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "end", "cut"],
    ["a length, reset early", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "reset", "cut"],
    [
      "chunks, ended early",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
      "end",
      "cut",
    ],
    ["half a head", "HTTP/1.1 200 OK\r\nConte", "end", "cut"],
  ] as const)("with %s is whole or cut, and known as it is", async (_what, bytes, then, kind) => {
    const told = await get(saying(bytes, then));
    expect(told.failure?.kind).toBe(kind);
    if (told.head !== undefined) expect(told.body).toBe("hello");
    expect(told.events.at(-1)).toBe(kind === undefined ? "end" : "lost");
  });

  it("may come before the request is whole: then the rest of it goes nowhere", async () => {
    await using backend = await startBackend(answering(OK));
    const connection = connectionTo(backend.port);
    const told = new Told();
    told.onEvent = (event, one) => event === "start" && one.write(Buffer.from("abc"));
    await send(connection, { method: "POST", body: 10 }, told);
    expect([told.body, connection.open]).toEqual(["ok", false]);
    expect(connection.write(Buffer.from("late"))).toBe(true);
    connection.end();
    expect(told.events).not.toContain("sent");
  });
});
