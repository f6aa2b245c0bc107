import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import type { IncomingRequest, RequestError } from "../../src/http1/server/incoming-request.ts";
import type { ResponseWriter } from "../../src/http1/server/response-writer.ts";
import { ServerConnection } from "../../src/http1/server/server-connection.ts";
import type { ServerLimits } from "../../src/http1/server/server-limits.ts";

export const LIMITS: ServerLimits = {
  lineBytesMax: 9_000,
  headBytesMax: 26_000,
  fieldBytesMax: 16_384,
  fieldCountMax: 100,
  aheadBytesMax: 65_536,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  idleTimeoutMs: 60_000,
  lingerMs: 5_000,
  lingerIdleMs: 1_000,
};

/** A socket that a test holds by its other end, without a system between. */
class Line extends Duplex {
  sent = "";
  reset = false;
  /** Takes writes without ever being done with them. */
  stuck = false;
  #stuckWrite: (() => void) | undefined;

  constructor() {
    super({ allowHalfOpen: true, decodeStrings: true });
  }

  /** To those who want a socket: what they use of one is here. */
  get socket(): Socket {
    return this as unknown as Socket;
  }

  /** A socket has this beyond a stream. */
  resetAndDestroy(): void {
    this.reset = true;
    this.destroy();
  }

  override _read(): void {}

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.sent += chunk.toString("latin1");
    if (this.stuck) this.#stuckWrite = done;
    else done();
  }

  /** Lets go of what was stuck. */
  release(): void {
    this.stuck = false;
    this.#stuckWrite?.();
  }

  /** Bytes of the client, as one read brings them. The next read overwrites them. */
  receive(bytes: Buffer | string): void {
    const read = typeof bytes === "string" ? Buffer.from(bytes, "latin1") : Buffer.from(bytes);
    this.emit("data", read);
    read.fill("?");
  }
}

/** One request as a server saw it. */
export type Seen = {
  readonly head: readonly string[];
  readonly framing: IncomingRequest["framing"];
  body: string;
  complete: boolean;
  error: RequestError | undefined;
};

/** A server that answers each request with 200, and what is wrong with its name. */
export class Server {
  readonly line = new Line();
  readonly seen: Seen[] = [];
  readonly refused: RequestError[] = [];
  readonly connection: ServerConnection;
  readonly answers: ResponseWriter[] = [];
  closed = 0;
  lingering = 0;
  /** Whether an answer goes out by itself. */
  readonly #answersAtOnce: boolean;
  limits: ServerLimits;
  readonly elapsed = () => performance.now();

  constructor(options: { answersAtOnce?: boolean; limits?: Partial<ServerLimits> } = {}) {
    this.#answersAtOnce = options.answersAtOnce ?? true;
    this.limits = { ...LIMITS, ...options.limits };
    this.connection = new ServerConnection(this.line.socket, this);
    this.line.socket.on("close", () => {
      this.closed += 1;
    });
  }

  onRequest(request: IncomingRequest, writer: ResponseWriter): void {
    const { method, target, version, rawHeaders, framing } = request;
    const head = [method, target, version, ...rawHeaders];
    const seen: Seen = { head, framing, body: "", complete: false, error: undefined };
    this.seen.push(seen);
    this.answers.push(writer);
    request.read({
      onBodyData: (piece) => {
        seen.body += piece.toString("latin1");
      },
      onBodyEnd: () => {
        seen.complete = true;
        if (this.#answersAtOnce) this.answer();
      },
    });
  }

  errorResponse(error: RequestError): string {
    this.refused.push(error);
    return `HTTP/1.1 400 ${error}\r\nConnection: close\r\n\r\n`;
  }

  onRequestError(request: IncomingRequest): void {
    (this.seen.at(-1) as Seen).error = request.error;
    const writer = this.answers.at(-1) as ResponseWriter;
    writer.closesConnection = true;
    if (writer.ended) return;
    writer.writeHead(400, ["Content-Length", "0"]);
    writer.end();
  }

  onLinger(): void {
    this.lingering += 1;
  }

  /** Answers the request that came last. */
  answer(): void {
    const writer = this.answers.at(-1) as ResponseWriter;
    writer.writeHead(200, ["Content-Length", "2"]);
    writer.end("ok");
  }

  /** All that a test may compare: what was seen, what was said, and how the connection is. */
  get result(): unknown {
    const { destroyed, writableEnded } = this.line;
    const sent = this.line.sent.replace(/Date: [^\r]*\r\n/g, "");
    return { seen: this.seen, refused: this.refused, sent, destroyed, writableEnded };
  }
}

/** Serves the bytes, each request answered as soon as it is whole. */
export function serve(pieces: readonly Buffer[]): unknown {
  const server = new Server();
  for (const piece of pieces) server.line.receive(piece);
  return server.result;
}

/** Serves them so that each answer waits until all bytes have come. */
export function serveLate(pieces: readonly Buffer[]): unknown {
  const server = new Server({ answersAtOnce: false });
  for (const piece of pieces) server.line.receive(piece);
  for (let answered = 0; server.seen[answered]?.complete === true; answered++) server.answer();
  return server.result;
}

/** A server that has read these bytes, and answers when it is told to. */
export function waiting(bytes: string, limits: Partial<ServerLimits> = {}): Server {
  const server = new Server({ answersAtOnce: false, limits });
  server.line.receive(bytes);
  return server;
}

export const settled = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
