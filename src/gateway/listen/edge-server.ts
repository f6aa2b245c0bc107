import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type TLSSocket, Server as TlsServer } from "node:tls";
import { DISCARD_BYTES_MAX, endThenDiscard } from "../../base/linger.ts";
import type { Environment, GatewayContext } from "../exchange/environment.ts";
import type { Certificate } from "../runtime/certificate.ts";
import { rawResponse } from "./parser-error.ts";

/** A client may end its side first and still get its answer; small answers go out at once. */
const OPTIONS = { allowHalfOpen: true, noDelay: true };
/** Our own deadline comes first, and ends with the connection. */
const NO_DEADLINE_MS = 2_147_483_647;

/** Takes the connections of a server. */
export type EdgeHandler<T> = {
  /** Called first for each connection; gives undefined where it was turned away. */
  onAccept(socket: Socket): T | undefined;
  /**
   * Called with the socket that brings HTTP: the same, or over TLS, when its handshake is over, one on
   * top of it. `accepted` is what `onAccept` gave.
   */
  onConnection(socket: Socket, accepted: T): void;
};

/**
 * A server for an address: over TLS where its environments have certificates, which they all do or
 * none (the configuration was checked). HTTP/1.1 is all that is offered, by ALPN too. A name in the
 * handshake (SNI) chooses the certificate of the environment that has this host.
 */
export function createEdgeServer<T>(
  gateway: GatewayContext,
  serves: () => readonly Environment[],
  handler: EdgeHandler<T>,
): Server {
  const first = defaultCertificate(serves());
  if (first === undefined) {
    return createServer(OPTIONS, (socket) => {
      const accepted = handler.onAccept(socket);
      if (accepted !== undefined) handler.onConnection(socket, accepted);
    });
  }
  const server = createTlsServer({
    ...OPTIONS,
    ...first.options,
    ALPNProtocols: ["http/1.1"],
    handshakeTimeout: NO_DEADLINE_MS,
    SNICallback: (name, done) => done(null, certificateFor(serves(), name)?.context),
  });
  takeHandshakes(server, handler);
  server.on("tlsClientError", (error: NodeJS.ErrnoException) => {
    gateway.log.debug("tls_handshake_failed", { why: error.code });
  });
  return server;
}

/** The first byte of a TLS handshake (RFC 8446 5.1). */
const HANDSHAKE = 0x16;
const PLAIN =
  '{"code":"bad_request","message":"This port speaks HTTPS: use https://","status":400}';

/**
 * Looks at the first byte of each connection: plain HTTP gets one answer that says what to do, where
 * a TLS library would hang up without a word (docs/reference/edge.md#tls). Until a handshake is over
 * a client that ends its side is gone: Node gives its half-open socket to nobody, and keeps it.
 */
function takeHandshakes<T>(server: TlsServer, handler: EdgeHandler<T>): void {
  const [secure] = server.listeners("connection") as ((socket: Socket) => void)[];
  /** By the peer's address and port: Node does not say which socket a TLS socket is on top of. */
  const handshakes = new Map<string, T>();
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    const accepted = handler.onAccept(socket);
    if (accepted === undefined) return;
    const peer = peerOf(socket);
    handshakes.set(peer, accepted);
    socket.once("close", () => handshakes.delete(peer));
    const drop = () => socket.destroy();
    socket.on("error", drop);
    socket.allowHalfOpen = false;
    socket.once("data", (first: Buffer) => {
      socket.pause();
      if (first[0] === HANDSHAKE) {
        socket.off("error", drop);
        socket.unshift(first);
        secure?.call(server, socket);
      } else {
        endThenDiscard(socket, rawResponse(400, PLAIN), DISCARD_BYTES_MAX);
      }
    });
  });
  server.on("secureConnection", (socket: TLSSocket) => {
    const accepted = handshakes.get(peerOf(socket));
    if (accepted === undefined) return void socket.destroy();
    socket.allowHalfOpen = true;
    handler.onConnection(socket, accepted);
  });
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`;
}

/** Shows clients without SNI the certificate that holds now. */
export function renewCertificate(server: Server, serves: readonly Environment[]): void {
  const certificate = defaultCertificate(serves);
  if (certificate !== undefined && server instanceof TlsServer) {
    server.setSecureContext(certificate.options);
  }
}

function certificateFor(serves: readonly Environment[], name: string): Certificate | undefined {
  const named = serves.find(({ hosts }) => hosts.includes(name.toLowerCase()));
  return named?.certificate ?? defaultCertificate(serves);
}

/** The certificate of the environment that answers to any host, or else of the first one. */
function defaultCertificate(serves: readonly Environment[]): Certificate | undefined {
  const any = serves.find(({ hosts }) => hosts.length === 0);
  return (any ?? serves[0])?.certificate;
}
