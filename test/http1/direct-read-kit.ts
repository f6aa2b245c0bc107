import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { startProgram } from "../support/gateway/processes.ts";
import { type EngineNode, programOf } from "../support/node-versions.ts";

/** Two clients and their server in one process. It prints what the server reads, and into what. */
const CLIENTS_AND_SERVER = `
  import { once } from "node:events";
  import { connect, createServer } from "node:net";
  import { setTimeout as sleep } from "node:timers/promises";
  import { copyOf, readAsStream, readDirectly } from "./src/http1/server/direct-read.ts";
  const tell = (...words) => console.log(words.join(" "));
  const buffers = new Set();
  const kept = [];
  let begins = "";
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    if (begins !== "") socket.unshift(begins);
    const isDirect = readDirectly(socket, (bytes, size) => {
      buffers.add(bytes.buffer);
      kept.push(copyOf(bytes, 0, size));
      tell("read", bytes.toString("latin1", 0, size), "into buffer", buffers.size);
      if (kept.at(-1).toString() === "stream") readAsStream(socket);
      socket.write("read");
    });
    tell("direct", isDirect);
    socket.once("end", () => tell("end")).once("end", () => socket.end());
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = async () => {
    const socket = connect(server.address().port, "127.0.0.1");
    const [accepted] = await once(server, "connection");
    return { socket, accepted };
  };
  const ask = async ({ socket }, text) => {
    socket.write(text);
    await once(socket, "data");
  };
  const [first, second] = [await client(), await client()];
  await ask(first, "of the first");
  await ask(second, "of the second");
  await ask(first, "stream");
  tell("kept", kept.map(String), "in", kept.map(({ buffer }) => buffer.byteLength));
  const sent = Buffer.from(Array.from({ length: 3_000_000 }, (_, i) => i % 251));
  first.socket.end(sent);
  await ask(second, "of the second again");
  await sleep(100);
  tell("held back", first.accepted.readableLength < 200_000);
  const pieces = await first.accepted.toArray();
  await ask(second, "of the second at last");
  tell("shared", pieces.some((piece) => buffers.has(piece.buffer)));
  tell("whole", Buffer.concat(pieces).equals(sent));
  begins = "read already";
  const third = await client();
  tell(third.accepted.read());
  third.socket.destroy();
  second.socket.end();
  await once(second.accepted, "close");
  server.close();
`;

/** Claims, for each of the Nodes, how a server reads the connections that it accepts. */
export function claimsDirectReads(nodes: readonly EngineNode[]): void {
  describe.each(nodes)("a connection that reads directly: $version", (node) => {
    it("shares one buffer with all others, until it is read as a stream, in order", async () => {
      const args = ["--disable-warning=ExperimentalWarning", "--input-type=module"];
      const { exited } = startProgram(programOf(node), [...args, "--eval", CLIENTS_AND_SERVER]);
      const { stdout, stderr } = await exited;
      assert.deepEqual(stdout.trim().split("\n"), TOLD, stderr);
    });
  });
}

const TOLD = [
  ...["direct true", "direct true"],
  "read of the first into buffer 1",
  "read of the second into buffer 1",
  "read stream into buffer 1",
  "kept of the first,of the second,stream in 12,13,6",
  "read of the second again into buffer 1",
  "held back true",
  "end",
  "read of the second at last into buffer 1",
  ...["shared false", "whole true"],
  ...["direct false", "read already", "end"],
  "end",
];
