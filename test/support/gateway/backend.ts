import {
  createServer,
  type IncomingMessage,
  type ServerOptions,
  type ServerResponse,
} from "node:http";
import { type AddressInfo, createServer as createTcpServer, type Socket } from "node:net";

/** A request as the backend saw it. `rawHeaders` is the flat list of names and values. */
export type RecordedRequest = {
  readonly method: string;
  readonly target: string;
  readonly rawHeaders: readonly string[];
  readonly httpVersion: string;
  /** All of the body, once it has ended; `complete` says whether it has. */
  body: Buffer;
  complete: boolean;
  /** Which connection, counted from 1. */
  readonly connection: number;
};

/** Called when the head has come; `whole` resolves with the body. May answer when it likes. */
export type RequestListener = (
  seen: RecordedRequest,
  response: ServerResponse,
  request: IncomingMessage,
  whole: Promise<Buffer>,
) => void | Promise<void>;

export type TestUpstream = AsyncDisposable & {
  readonly port: number;
  /** "http://127.0.0.1:PORT" */
  readonly origin: string;
  /** Every request whose head has come, oldest first. */
  readonly seen: readonly RecordedRequest[];
  /** How many connections were ever accepted. */
  readonly connections: () => number;
  /** How many of them have ended. */
  readonly closed: () => number;
  /** Replaces the answer for the requests to come. */
  answer(next: RequestListener): void;
  forget(): void;
  /** Ends the connections that are open, at once. */
  cut(): void;
  close(): Promise<void>;
};

/** Waits for the body, then answers 200 with a small JSON text. */
const answerOk: RequestListener = async (_seen, response, _request, whole) => {
  await whole;
  response.writeHead(200, { "Content-Type": "application/json" }).end('{"ok":true}');
};

/** A backend on any free port of loopback that records what it sees, and keeps idle connections. */
export async function startTestUpstream(
  first: RequestListener = answerOk,
  options: ServerOptions & { readonly port?: number } = {},
): Promise<TestUpstream> {
  const { port: wantedPort = 0, ...serverOptions } = options;
  const seen: RecordedRequest[] = [];
  const numbers = new WeakMap<Socket, number>();
  let connections = 0;
  let closed = 0;
  let answer = first;
  const server = createServer(
    { keepAliveTimeout: 60_000, requestTimeout: 0, ...serverOptions },
    (request, response) => {
      const record = recordOf(request, numbers.get(request.socket) ?? 0);
      seen.push(record);
      void handle(answer, record, request, response);
    },
  );
  server.on("connection", (socket) => {
    connections += 1;
    socket.once("close", () => {
      closed += 1;
    });
    numbers.set(socket, connections);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(wantedPort, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  const close = () => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    return closed;
  };
  return {
    port,
    origin: `http://127.0.0.1:${port}`,
    seen,
    connections: () => connections,
    closed: () => closed,
    answer: (next) => {
      answer = next;
    },
    forget: () => {
      seen.length = 0;
    },
    cut: () => server.closeAllConnections(),
    close,
    [Symbol.asyncDispose]: close,
  };
}

function recordOf(request: IncomingMessage, connection: number): RecordedRequest {
  const { method = "", url: target = "", rawHeaders, httpVersion } = request;
  const body = Buffer.alloc(0);
  return { method, target, rawHeaders, httpVersion, body, complete: false, connection };
}

/** A failing answer ends the connection: the gateway sees a backend that died, the test an error. */
async function handle(
  answer: RequestListener,
  record: RecordedRequest,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const whole = new Promise<Buffer>((resolve) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("error", () => {});
    request.on("close", () => resolve(record.body));
    request.on("end", () => {
      record.body = Buffer.concat(chunks);
      record.complete = true;
      resolve(record.body);
    });
  });
  try {
    await answer(record, response, request, whole);
  } catch {
    request.socket.destroy();
  }
}

export type ByteUpstream = AsyncDisposable & {
  readonly port: number;
  readonly origin: string;
  /** The bytes that came over each connection, oldest first. */
  readonly received: readonly { readonly bytes: () => Buffer; readonly socket: Socket }[];
  close(): Promise<void>;
};

/**
 * A backend of bytes, for answers that no server would write: `serve` is called for each connection
 * when its first bytes have come, and writes what it likes.
 */
export async function startByteUpstream(
  serve: (socket: Socket, connection: number) => void,
): Promise<ByteUpstream> {
  const received: { bytes: () => Buffer; socket: Socket }[] = [];
  const server = createTcpServer({ allowHalfOpen: true }, (socket) => {
    const chunks: Buffer[] = [];
    received.push({ bytes: () => Buffer.concat(chunks), socket });
    const connection = received.length;
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      if (chunks.length === 1) serve(socket, connection);
    });
    socket.on("end", () => socket.end());
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject).listen(0, "127.0.0.1", resolve);
  });
  const { port } = server.address() as AddressInfo;
  const close = () => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    for (const { socket } of received) socket.destroy();
    return closed;
  };
  return {
    port,
    origin: `http://127.0.0.1:${port}`,
    received,
    close,
    [Symbol.asyncDispose]: close,
  };
}
