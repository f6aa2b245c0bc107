import { describe, expect, it } from "vitest";
import type { ClientConnection } from "../../src/http1/client/client-connection.ts";
import type { OutgoingRequest } from "../../src/http1/client/outgoing-request.ts";
import { connectionTo, OK, send, startBackend, Told } from "./scripted-backend.ts";

type Body = OutgoingRequest["body"];

/**
 * Sends a PUT whose caller does this once the body may be written, to a backend that answers as soon
 * as it has the bytes given behind the head.
 */
async function put(body: Body, write: (connection: ClientConnection) => void, answered = "never") {
  let received = "";
  const bodyOf = () => received.slice(received.indexOf("\r\n\r\n") + 4);
  await using backend = await startBackend((socket) => {
    socket.on("data", (chunk: Buffer) => {
      received += chunk.toString("latin1");
      if (bodyOf() === answered) socket.write(OK);
    });
  });
  const connection = connectionTo(backend.port);
  const told = new Told();
  told.onEvent = (event, one) => {
    if (event !== "start") return;
    expect(received).toBe("");
    write(one);
  };
  await send(connection, { method: "PUT", fields: ["X-A", "\xe9"], body }, told);
  const { open } = connection;
  connection.close();
  return { told, received, body: bodyOf(), open };
}

function writeTogether(connection: ClientConnection, pieces: readonly string[]): void {
  expect(connection.writeTogether(pieces.map((piece) => Buffer.from(piece)))).toBe(true);
}

function writeAll(connection: ClientConnection, pieces: readonly string[]): void {
  for (const piece of pieces) expect(connection.write(Buffer.from(piece))).toBe(true);
}

describe("the body of a request", () => {
  it.each([
    ["with its length", 10, ["abc", "", "defghij"], "abcdefghij"],
    ["to its last byte", 3, ["a", "b", "c"], "abc"],
    ["in chunks", "chunked", ["abc", "", "d"], "3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"],
    ["as no chunks", "chunked", [], "0\r\n\r\n"],
    ["as no bytes", 0, [], ""],
    ["as nothing", undefined, [], ""],
  ] as const)(
    "goes out %s behind its head, and nothing of it behind its end",
    async (_how, body, pieces, framed) => {
      for (const writePieces of [writeAll, writeTogether]) {
        const write = (one: ClientConnection) => {
          writePieces(one, pieces);
          one.end();
          writePieces(one, ["x"]);
          one.end();
        };
        const { told, ...sent } = await put(body, write, framed);
        expect(sent.body).toBe(framed);
        // Byte for byte: one that is no ASCII is one byte still.
        expect(sent.received).toContain("\r\nX-A: \xe9\r\n");
        expect(told.events.slice(0, 4)).toEqual(["start", "sending", "sent", "head 200"]);
        expect(sent.open).toBe(true);
      }
    },
  );

  it.each([
    ["longer", "abcdef"],
    ["shorter", "ab"],
  ])(
    "that is %s than its request said lets nothing be read as another request",
    async (what, body) => {
      const write = (one: ClientConnection) => {
        writeAll(one, [body]);
        one.end();
        writeAll(one, ["x"]);
        one.end();
      };
      const { told, received, open } = await put(3, write);
      expect(told.failure).toMatchObject({ kind: "misframed", why: expect.stringContaining(what) });
      expect(told.events.at(-1)).toBe("lost");
      expect(open).toBe(false);
      expect(received).not.toContain("abcdef");
    },
  );

  it("that turns out longer in a later piece of one read ends its connection", async () => {
    const write = (one: ClientConnection) => writeTogether(one, ["ab", "cd", "ef"]);
    const { told, open } = await put(3, write);
    expect(told.events.slice(-1)).toEqual(["lost"]);
    expect([told.failure?.kind, open]).toEqual(["misframed", false]);
  });
});
