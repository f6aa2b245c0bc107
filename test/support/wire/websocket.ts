import { createServer, type IncomingMessage, type ServerOptions } from "node:http";
import type { AddressInfo } from "node:net";
import { type ClientOptions, WebSocket, WebSocketServer } from "ws";
import type { Upstream } from "../gateway/house.ts";

/** A handshake as the backend saw it. */
export type RecordedHandshake = {
  readonly method: string;
  readonly target: string;
  readonly rawHeaders: readonly string[];
};

export type WebSocketUpstream = Omit<Upstream, "seen"> & {
  readonly seen: readonly RecordedHandshake[];
  /** The backend's ends of the sockets that were opened, oldest first. */
  readonly sockets: readonly WebSocket[];
};

type Options = {
  readonly perMessageDeflate?: boolean;
  readonly protocols?: readonly string[];
  /** Called with each socket; default: what comes is sent back as it came. */
  readonly serve?: (socket: WebSocket, request: IncomingMessage) => void;
  readonly server?: ServerOptions;
};

/** A backend that opens a WebSocket to whoever asks, and answers plain requests with 200. */
export async function startWebSocketUpstream(options: Options = {}): Promise<WebSocketUpstream> {
  const seen: RecordedHandshake[] = [];
  const { protocols } = options;
  const record = ({ method = "", url: target = "", rawHeaders }: IncomingMessage) => {
    seen.push({ method, target, rawHeaders });
  };
  const server = createServer(options.server ?? {}, (request, response) => {
    record(request);
    response.end("plain");
  });
  const sockets: WebSocket[] = [];
  const webSockets = new WebSocketServer({
    noServer: true,
    perMessageDeflate: options.perMessageDeflate ?? false,
    ...(protocols && {
      handleProtocols: (offered: Set<string>) => protocols.find((one) => offered.has(one)) ?? false,
    }),
  });
  const echo = (socket: WebSocket) => {
    socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
  };
  server.on("upgrade", (request, stream, head) => {
    record(request);
    stream.on("error", () => undefined);
    webSockets.handleUpgrade(request, stream, head, (socket) => {
      sockets.push(socket);
      socket.on("error", () => undefined);
      (options.serve ?? echo)(socket, request);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    sockets,
    close: async () => {
      for (const socket of sockets) socket.terminate();
      server.closeAllConnections();
      await new Promise<void>((resolve) => server.close(() => resolve()));
    },
  };
}

/** The messages that a client got so far, and how the socket ended. */
export type WebSocketClient = AsyncDisposable & {
  readonly socket: WebSocket;
  readonly messages: { readonly data: Buffer; readonly isBinary: boolean }[];
  readonly headers: IncomingMessage["headers"];
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>;
};

type Wanted = ClientOptions & { readonly key?: string; readonly protocols?: string[] };

/** Opens a WebSocket through the gateway; rejects with the status where it is refused. */
export async function openWebSocket(url: string, wanted: Wanted = {}): Promise<WebSocketClient> {
  const { key, protocols = [], ...options } = wanted;
  const headers = key === undefined ? {} : { Authorization: `Bearer ${key}` };
  const socket = new WebSocket(url.replace(/^http/, "ws"), protocols, {
    perMessageDeflate: false,
    ...options,
    headers: { ...headers, ...options.headers },
  });
  const messages: { data: Buffer; isBinary: boolean }[] = [];
  socket.on("message", (data, isBinary) => messages.push({ data: data as Buffer, isBinary }));
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    socket.once("close", (code, reason) => resolve({ code, reason: reason.toString() }));
  });
  let fields: IncomingMessage["headers"] = {};
  socket.once("upgrade", (response) => {
    fields = response.headers;
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("open", resolve);
    socket.once("error", reject);
  });
  socket.on("error", () => undefined);
  return {
    socket,
    messages,
    headers: fields,
    closed,
    [Symbol.asyncDispose]: async () => {
      socket.terminate();
      await closed;
    },
  };
}

const NONCE = "dGhlIHNhbXBsZSBub25jZQ==";

/** The fields of a good handshake, for requests that are written as bytes. */
export function handshakeOf(
  changes: Readonly<Record<string, string | undefined>> = {},
): [string, string][] {
  const fields = {
    Connection: "Upgrade",
    Upgrade: "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": NONCE,
    ...changes,
  };
  return Object.entries(fields).filter((field): field is [string, string] => {
    return field[1] !== undefined;
  });
}
