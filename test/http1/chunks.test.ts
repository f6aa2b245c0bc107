import type { Socket } from "node:net";
import { Writable } from "node:stream";
import { expect, it } from "vitest";
import { encodeChunk, LAST_CHUNK, writeBodyData } from "../../src/http1/write/message-writer.ts";

/** A socket that notes what each call to the system would have got, and takes all, or nothing. */
function noting(takes: "all" | "nothing" = "all") {
  const batches: string[][] = [];
  const textOf = (chunk: Buffer) => chunk.toString("latin1");
  const writable = new Writable({
    highWaterMark: 20,
    write: (chunk, _encoding, done) => {
      batches.push([textOf(chunk)]);
      if (takes === "all") done();
    },
    writev: (chunks, done) => {
      batches.push(chunks.map(({ chunk }) => textOf(chunk)));
      if (takes === "all") done();
    },
  });
  return { socket: writable as unknown as Socket, batches };
}

it("a piece goes out together with the head that was held back for it, as a chunk or as it is", () => {
  for (const [head, chunked, parts] of [
    ["", false, ["0123456789a"]],
    ["HEAD", false, ["HEAD", "0123456789a"]],
    ["", true, ["b\r\n", "0123456789a", "\r\n"]],
    ["H\xe9", true, ["H\xe9b\r\n", "0123456789a", "\r\n"]],
  ] as const) {
    const { socket, batches } = noting();
    expect(writeBodyData(socket, head, Buffer.from("0123456789a"), chunked)).toBe(true);
    expect(batches).toEqual([parts]);
  }
});

it("a socket that is full says so, by the last of what it was given", () => {
  for (const chunked of [false, true]) {
    const written = (bytes: number) => {
      return writeBodyData(noting("nothing").socket, "", Buffer.alloc(bytes), chunked);
    };
    expect([written(20), written(10)]).toEqual([false, true]);
  }
  expect(writeBodyData(noting("nothing").socket, "", Buffer.alloc(16), true)).toBe(false);
});

it("a piece above the limit of a socket holds up nothing where the system takes all of it", () => {
  for (const chunked of [false, true]) {
    const { socket } = noting();
    for (let i = 0; i < 3; i++) {
      expect(writeBodyData(socket, i === 0 ? "HEAD" : "", Buffer.alloc(50), chunked)).toBe(true);
    }
  }
});

it("text is a chunk of its length, and the last one is empty", () => {
  expect(encodeChunk("x".repeat(26)) + LAST_CHUNK).toBe(`1a\r\n${"x".repeat(26)}\r\n0\r\n\r\n`);
});
