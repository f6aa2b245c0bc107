import { createServer, request as httpRequest, type IncomingMessage, METHODS } from "node:http";
import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { setImmediate as turn } from "node:timers/promises";
import type { ReadResponse } from "./backend-bytes.ts";

/** Methods that llhttp knows; any other token is a method to us, for core to refuse. */
export const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS);

/** One request as llhttp, Node's own parser, read it. */
export type TheirRequest = {
  readonly head: readonly string[];
  body: string;
  /** Read whole; of its body some may not have been told, where wrong bytes follow it. */
  complete: boolean;
  ended: boolean;
};

class Pipe extends Duplex {
  override _read(): void {}

  override _write(_chunk: unknown, _encoding: string, done: () => void): void {
    done();
  }

  setNoDelay(): void {}

  setKeepAlive(): void {}

  setTimeout(): void {}

  ref(): void {}

  unref(): void {}
}

let requests: TheirRequest[] = [];
let messages: IncomingMessage[] = [];
const server = createServer({ requireHostHeader: false, shouldUpgradeCallback: () => false });
server.maxHeadersCount = 0;
for (const event of ["request", "checkContinue", "checkExpectation"] as const) {
  server.on(event, (request, response) => {
    const { method = "", url = "", httpVersion, rawHeaders } = request;
    const head = [method, url, httpVersion, ...rawHeaders];
    const seen: TheirRequest = { head, body: "", complete: false, ended: false };
    requests.push(seen);
    messages.push(request);
    request.on("error", () => undefined);
    request.on("data", (chunk: Buffer) => {
      seen.body += chunk.toString("latin1");
    });
    request.on("end", () => {
      seen.ended = true;
      response.writeHead(200, { "Content-Length": 2 });
      response.end("ok");
    });
  });
}
server.on("connect", (_request, socket) => socket.destroy());
server.on("clientError", (_error, socket) => socket.destroy());

/** The requests that llhttp reads in the bytes, each answered as soon as it is whole. */
export async function theirRequests(bytes: Buffer): Promise<readonly TheirRequest[]> {
  const mine: TheirRequest[] = [];
  requests = mine;
  messages = [];
  const pipe = new Pipe();
  pipe.on("error", () => undefined);
  server.emit("connection", pipe as unknown as Socket);
  pipe.push(bytes);
  for (let turns = 0; turns < 4; turns++) await turn();
  pipe.destroy();
  for (const [i, { complete }] of messages.entries()) (mine[i] as TheirRequest).complete = complete;
  return mine;
}

/** The response that llhttp reads in the bytes of a backend, which then ends its connection. */
export async function theirResponse(method: string, bytes: Buffer): Promise<ReadResponse> {
  const read: ReadResponse = { interim: [], head: undefined, body: "", end: "more", left: 0 };
  const pipe = new Pipe();
  pipe.on("error", () => undefined);
  const createConnection = () => pipe as unknown as Socket;
  const request = httpRequest({ method, createConnection, maxHeaderSize: 65_536 });
  request.maxHeadersCount = 0;
  request.on("error", () => {
    read.end = "wrong";
  });
  request.on("information", ({ statusCode }) => read.interim.push(statusCode));
  request.on("response", (response) => {
    const { statusCode = 0, httpVersion, rawHeaders } = response;
    read.head = { status: statusCode, version: httpVersion, rawHeaders } as ReadResponse["head"];
    response.on("error", () => {
      read.end = "wrong";
    });
    response.on("data", (chunk: Buffer) => {
      read.body += chunk.toString("latin1");
    });
    response.on("end", () => {
      if (response.complete && read.end === "more") read.end = "end";
    });
  });
  request.end();
  await turn();
  pipe.push(bytes);
  pipe.push(null);
  for (let turns = 0; turns < 4; turns++) await turn();
  pipe.destroy();
  return read;
}
