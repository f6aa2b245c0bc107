import type { ClientRequest, IncomingHttpHeaders, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { createProxyServer } from "http-proxy-3";
import { REFUSED_HANDSHAKE } from "../../http1/client/client-connection.ts";
import type { RequestFailure } from "../../http1/client/outgoing-request.ts";
import {
  countOpen,
  type Destination,
  filesShortage,
  keepSession,
} from "../../http1/client/socket.ts";
import { HEAD_BYTES_MAX } from "../upstreams/upstream.ts";
import type { ClientStream } from "./client-stream.ts";

/**
 * The only use of http-proxy-3, which carries WebSocket and nothing else. `toProxy` and the path
 * set below stop it from changing the target. The gateway does everything else that the library
 * would get wrong: forwarded-fields.ts writes the fields for the upstream, the response is judged
 * and replaced first, and the library never gets the client's socket (see client-stream.ts).
 */
const proxy = createProxyServer({ toProxy: true, prependPath: false });
proxy.on("proxyReqWs", (request, _incoming, client) => onRequest.get(client)?.(request));
const onRequest = new WeakMap<object, (request: ClientRequest) => void>();

type Handshake = {
  readonly destination: Destination;
  /** Sent byte for byte. */
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
};

type HandshakeEvents = {
  /** Called with the library's request, before the library listens to it. */
  onRequest(request: ClientRequest): void;
  /** Called when there is a connection, and over TLS when the upstream has been verified. */
  onConnect(): void;
  /** Called for every end of the request and of its connection. */
  onError(error: Error): void;
};

/** Has the library send a handshake, and forward both directions once the upstream has agreed. */
export function sendHandshake(
  client: ClientStream,
  { destination, target, headers }: Handshake,
  events: HandshakeEvents,
): void {
  const { host, port, tls, lookup, session, sockets } = destination;
  if (sockets?.isFull) {
    events.onError(filesShortage());
    return;
  }
  onRequest.set(client, (request) => {
    events.onRequest(request);
    request.path = target;
    // Node reads it when the connection is made. The types do not declare it.
    Object.assign(request, { maxHeaderSize: HEAD_BYTES_MAX });
    request.once("socket", (socket) => {
      if (sockets !== undefined) countOpen(socket, sockets);
      if (session !== undefined) keepSession(socket, session);
      socket.once(tls === undefined ? "connect" : "secureConnect", () => events.onConnect());
    });
  });
  const request = { method: "GET", url: target, headers, socket: client, connection: client };
  const { ca, cert, key } = tls ?? {};
  const to = {
    // The library reads the client certificate only from the target, and the rest from `ssl`.
    target: { protocol: tls === undefined ? "http:" : "https:", host, port, ca, cert, key },
    // Without a server name, Node would send the name of the Host field.
    ssl: { ...tls, servername: tls?.servername ?? "", lookup, session: session?.ticket },
  };
  proxy.ws(
    request as unknown as IncomingMessage,
    client as unknown as Socket,
    Buffer.alloc(0),
    to,
    (error) => events.onError(error),
  );
}

const LOST: ReadonlySet<string> = new Set([
  ...["ECONNRESET", "EPIPE", "ECONNABORTED", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH"],
]);

/** Converts an error of Node's HTTP client into a failure as the HTTP/1.1 client reports it. */
export function handshakeFailure(error: Error, sent: boolean, answering: boolean): RequestFailure {
  const code = "code" in error ? String(error.code) : undefined;
  // The message of Node's parser says more than its code.
  const why = code === undefined || code.startsWith("HPE_") ? error.message : code;
  const lost = { sent, reused: false, why };
  const isRefused = !answering && REFUSED_HANDSHAKE.test(why);
  if (!sent || isRefused) return { ...lost, kind: "unreached" };
  return { ...lost, kind: LOST.has(why) && !answering ? "unanswered" : "invalid" };
}
