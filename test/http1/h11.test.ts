import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface, type Interface } from "node:readline";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { PYTHON } from "../../scripts/needs.ts";
import { isFramingError } from "../../src/http1/parse/framing.ts";
import { needing } from "../support/needing.ts";
import { smugglingVectors } from "../support/wire/vectors.ts";
import { type Seen, Server } from "./client-bytes.ts";
import { requestBytes } from "./messages.ts";

type Theirs = Pick<Seen, "body" | "complete"> & {
  readonly head: readonly string[] | null;
  readonly wrong?: string;
};

/** h11 is a reader of HTTP in Python, written by others from the RFCs: `apt-get install python3-h11`. */
describe("a request that we accept, h11 accepts and reads the same", needing("h11"), () => {
  let child: ChildProcessWithoutNullStreams;
  let lines: Interface;
  beforeAll(() => {
    child = spawn(PYTHON, [new URL("h11-reader.py", import.meta.url).pathname]);
    lines = createInterface({ input: child.stdout });
  });
  afterAll(() => child.kill());

  /** RFC 9112 2.2 lets a server skip empty lines ahead of a request: h11 skips one, we any number. */
  async function theirs(bytes: Buffer): Promise<Theirs> {
    const begun = bytes.toString("latin1").replace(/^(?:\r\n)+/, "");
    const line = once(lines, "line");
    child.stdin.write(`${Buffer.from(begun, "latin1").toString("base64")}\n`);
    return JSON.parse(String((await line)[0]));
  }

  async function readTheSame(bytes: Buffer): Promise<void> {
    const server = new Server();
    server.line.receive(bytes);
    const [ours] = server.seen;
    if (ours === undefined || ours.error !== undefined || !isFit(ours)) return;
    const { head, body, complete, wrong } = await theirs(bytes);
    expect([wrong, head]).toEqual([undefined, withPlainCoding(ours.head)]);
    if (ours.complete) expect([complete, body]).toEqual([true, ours.body]);
    else expect(complete).toBe(false);
  }

  for (const { name, bytes } of smugglingVectors()) {
    it(`in ${name}`, () => readTheSame(bytes));
  }

  it("in requests that were made up and broken", async () => {
    await fc.assert(fc.asyncProperty(requestBytes, readTheSame), { numRuns: 2_000 });
  });
});

/** h11 tells the transfer coding in lower case. */
function withPlainCoding(head: readonly string[]): string[] {
  return head.map((part, i) => {
    const isCoding = i > 3 && i % 2 === 0 && /^transfer-encoding$/i.test(head[i - 1] as string);
    return isCoding ? part.toLowerCase() : part;
  });
}

/** Core refuses the others: those with another number of Hosts, or with an unclear framing. */
function isFit({ head, framing }: Seen): boolean {
  const hosts = head.filter((part, i) => i > 2 && i % 2 === 1 && part.toLowerCase() === "host");
  return !isFramingError(framing) && hosts.length === 1;
}
