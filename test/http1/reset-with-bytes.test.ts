import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { afterAll, describe, it } from "vitest";
import { startProgram } from "../support/gateway/processes.ts";
import { OWN_NODE, oldestNode, programOf } from "../support/node-versions.ts";

const END = {
  reset: (socket: Socket) => socket.resetAndDestroy(),
  end: (socket: Socket) => socket.end(),
};
const CLAIMS = {
  reset: ["half of it", "closed ECONNRESET"],
  end: ["half of it", "end", "closed closed"],
} as const;

const backend = createServer((socket) => {
  socket.on("error", () => {});
  socket.once("data", (wanted) => {
    socket.write("half of it");
    END[wanted.toString() as keyof typeof END](socket);
  });
});
await once(backend.listen(0, "127.0.0.1"), "listening");
const { port } = backend.address() as AddressInfo;
afterAll(() => backend.close());

/** Reads nothing until the bytes and what follows them have both come. */
const READS_LATE = `
  import { openSocket } from "./src/http1/client/socket.ts";
  const [port, wanted] = process.argv.slice(1);
  const tell = (...words) => console.log(words.join(" "));
  openSocket({ host: "127.0.0.1", port: Number(port), tls: undefined }, {
    onConnect: (socket) => socket.write(wanted, () => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
    }),
    onRead: (_socket, bytes, size) => tell(bytes.toString("latin1", 0, size)),
    onDrain: () => {},
    onEnd: () => tell("end"),
    onClose: (_socket, why) => tell("closed", why),
  });
`;

const nodes = [...(await oldestNode()), OWN_NODE];

describe.each(nodes)("bytes that are read together with what follows: $version", (node) => {
  it.each(Object.keys(CLAIMS) as (keyof typeof CLAIMS)[])("%s", async (wanted) => {
    const args = ["--disable-warning=ExperimentalWarning", "--input-type=module"];
    const program = ["--eval", READS_LATE, String(port), wanted];
    const { stdout, stderr } = await startProgram(programOf(node), [...args, ...program]).exited;
    assert.deepEqual(stdout.trim().split("\n"), CLAIMS[wanted], stderr);
  });
});
