import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isFramingError } from "../../src/http1/parse/framing.ts";
import { smugglingVectors, upstreamVectors } from "../support/wire/vectors.ts";
import { readResponse } from "./backend-bytes.ts";
import { type Seen, Server } from "./client-bytes.ts";
import { KNOWN_METHODS, theirRequests, theirResponse } from "./llhttp.ts";
import { requestBytes, responseBytes } from "./messages.ts";

/**
 * Requests that we read and llhttp does not, by name: what core refuses, so that the answer can have
 * our fields. Nothing behind such a request is compared.
 */
const REQUEST_LENIENCIES: readonly {
  readonly name: string;
  readonly bytes: string;
  readonly is: (method: string, target: string) => boolean;
}[] = [
  {
    name: "a method that nobody knows",
    bytes: "FETCH / HTTP/1.1\r\nHost: a\r\n\r\n",
    is: (method) => !KNOWN_METHODS.has(method),
  },
  {
    name: "a method of RTSP",
    bytes: "DESCRIBE / HTTP/1.1\r\nHost: a\r\n\r\n",
    is: (method) => !KNOWN_METHODS.has(method),
  },
  {
    name: "CONNECT, behind which nothing is HTTP",
    bytes: "CONNECT / HTTP/1.1\r\nHost: a\r\n\r\n",
    is: (method) => method === "CONNECT",
  },
  {
    name: "a target in none of the four forms",
    bytes: "GET ?a HTTP/1.1\r\nHost: a\r\n\r\n",
    is: (_method, target) => !/^(?:[/*]|[A-Za-z]+:\/\/[^/?#@]+(?:[/?]|$))/.test(target),
  },
];

function isLenient({ head }: Seen): boolean {
  const [method = "", target = ""] = head;
  return REQUEST_LENIENCIES.some(({ is }) => is(method, target));
}

/** Node reads nothing behind a request that would upgrade, also where it is answered without. */
function mayUpgrade({ head }: Seen): boolean {
  return head.some((part, i) => i % 2 === 1 && part.toLowerCase() === "upgrade");
}

/** The requests in the bytes that we accept, up to the first that only core refuses. */
function ourRequests(bytes: Buffer): Seen[] {
  const server = new Server();
  server.line.receive(bytes);
  const refused = server.seen.findIndex((one) => isLenient(one) || isFramingError(one.framing));
  const ours = refused === -1 ? server.seen : server.seen.slice(0, refused);
  const last = ours.findIndex(mayUpgrade);
  return last === -1 ? ours : ours.slice(0, last + 1);
}

async function readTheSame(bytes: Buffer): Promise<void> {
  const ours = ourRequests(bytes);
  if (ours.length === 0) return;
  const theirs = await theirRequests(bytes);
  for (const [i, { head, body, complete }] of ours.entries()) {
    expect(theirs[i]?.head).toEqual(head);
    if (complete) expect(theirs[i]?.complete).toBe(true);
    if (complete && theirs[i]?.ended) expect(theirs[i]?.body).toBe(body);
    else expect(body.startsWith(theirs[i]?.body ?? "")).toBe(true);
  }
}

describe("a request that we accept, llhttp accepts and reads the same", () => {
  for (const { name, bytes } of smugglingVectors()) {
    it(`in ${name}`, () => readTheSame(bytes));
  }

  it("in requests that were made up and broken", async () => {
    await fc.assert(fc.asyncProperty(requestBytes, readTheSame), { numRuns: 2_000 });
  });

  it("but for what follows a request that would upgrade, and does not", async () => {
    const head = "GET / HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: h2c\r\n\r\n";
    const server = new Server();
    server.line.receive(head + head);
    expect(server.seen).toHaveLength(2);
    expect(await theirRequests(Buffer.from(head + head))).toHaveLength(1);
  });

  for (const { name, bytes } of REQUEST_LENIENCIES) {
    it(`but for ${name}, which core refuses`, async () => {
      const server = new Server();
      server.line.receive(bytes);
      expect(server.seen).toHaveLength(1);
      expect(await theirRequests(Buffer.from(bytes))).toEqual([]);
    });
  }
});

/** A response that we accept is the same to both. */
async function readTheSameResponse(bytes: Buffer): Promise<void> {
  const ours = readResponse("GET", [bytes]);
  const isWhole = ours.end === "end" || (ours.end === "more" && ours.head?.framing === "close");
  if (!isWhole || ours.head === undefined) return;
  const theirs = await theirResponse("GET", bytes);
  const { status, version, rawHeaders, keepsAlive } = ours.head;
  // llhttp also refuses unclear framing of what has no body. We end that connection instead.
  const isBodiless = status === 204 || status === 304;
  if (theirs.head === undefined && isBodiless && !keepsAlive) return;
  expect(theirs.head).toEqual({ status, version, rawHeaders });
  expect(theirs.body).toBe(ours.body);
  expect(theirs.interim).toEqual(ours.interim);
  // Behind the end Node may find the connection wrong; we say that bytes were left.
  if (ours.left === 0) expect(theirs.end).toBe("end");
}

describe("a response that we accept, llhttp accepts and reads the same", () => {
  for (const { name, bytes } of upstreamVectors()) {
    it(`in ${name}`, () => readTheSameResponse(bytes));
  }

  it("in responses that were made up and broken", async () => {
    await fc.assert(fc.asyncProperty(responseBytes, readTheSameResponse), { numRuns: 2_000 });
  });
});
