import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, type TLSSocket, Server as TlsServer } from "node:tls";
import type { Environment, GatewayContext } from "../exchange/environment.ts";
import type { Certificate } from "../runtime/certificate.ts";
import { refusalResponse } from "./parser-error.ts";

/** A client may end its side first and still get its response; small responses go out at once. */
const OPTIONS = { allowHalfOpen: true, noDelay: true };
/** Disables Node's deadline: the connection table ends a handshake earlier. */
const NO_DEADLINE_MS = 2_147_483_647;

/** Takes the connections of a server. */
type EdgeHandler<T> = {
  /** Called first for each connection. Returns undefined if the connection was turned away. */
  onAccept(socket: Socket): T | undefined;
  /**
   * Called with the socket that carries HTTP: the same socket, or over TLS the socket on top of it,
   * once its handshake is over. `accepted` is the return value of `onAccept`. `answer` is the whole
   * response to a connection that began no handshake, and its last one.
   */
  onConnection(socket: Socket, accepted: T, answer?: string): void;
};

/**
 * A server for an address. It uses TLS if its environments have certificates; either all have one
 * or none has (the configuration was checked). It offers HTTP/1.1 and HTTP/1.0, also by ALPN. The
 * name in the handshake (SNI) selects the certificate of the environment that has this host.
 */
export function createEdgeServer<T>(
  gateway: GatewayContext,
  environments: () => readonly Environment[],
  handler: EdgeHandler<T>,
): Server {
  const first = defaultCertificate(environments());
  if (first === undefined) {
    return createServer(OPTIONS, (socket) => {
      const accepted = handler.onAccept(socket);
      if (accepted !== undefined) handler.onConnection(socket, accepted);
    });
  }
  const server = createTlsServer({
    ...OPTIONS,
    ...first.options,
    ALPNProtocols: ["http/1.1", "http/1.0"],
    handshakeTimeout: NO_DEADLINE_MS,
    SNICallback: (name, done) => done(null, certificateFor(environments(), name)?.context),
  });
  takeHandshakes(server, handler, () => refusalResponse(PLAIN, gateway.style.errors));
  server.on("tlsClientError", (error: NodeJS.ErrnoException) => {
    gateway.log.debug("tls_handshake_failed", { why: error.code });
  });
  return server;
}

/** The first byte of a TLS handshake (RFC 8446 5.1). */
const HANDSHAKE = 0x16;
const PLAIN = { code: "bad_request", message: "This port speaks HTTPS: use https://" } as const;

/**
 * Checks the first byte of each connection. Plain HTTP gets one response that says what to do; a
 * TLS library would close the connection without a response (docs/reference/edge.md#tls). Until the
 * handshake is over, a client that ends its side is treated as gone, because Node would keep the
 * half-open socket and hand it to no listener.
 */
function takeHandshakes<T>(
  server: TlsServer,
  handler: EdgeHandler<T>,
  plainResponse: () => string,
): void {
  const [secure] = server.listeners("connection") as ((socket: Socket) => void)[];
  /**
   * Keyed by the addresses and ports of both ends, because Node does not expose a TLS socket's raw
   * socket. A client may use one port towards two addresses of this listener.
   */
  const handshakes = new Map<string, { readonly accepted: T; readonly raw: Socket }>();
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    const accepted = handler.onAccept(socket);
    if (accepted === undefined) return;
    const ends = endsOf(socket);
    const handshake = { accepted, raw: socket };
    handshakes.set(ends, handshake);
    // After a reset the client may have connected again from the same port.
    socket.once("close", () => handshakes.get(ends) === handshake && handshakes.delete(ends));
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
        socket.allowHalfOpen = true;
        handler.onConnection(socket, accepted, plainResponse());
      }
    });
  });
  server.on("secureConnection", (socket: TLSSocket) => {
    const handshake = handshakes.get(endsOf(socket));
    if (handshake === undefined) return void socket.destroy();
    const { accepted, raw } = handshake;
    socket.allowHalfOpen = true;
    // Node's own throws: only a TCP socket can send a reset. Its close destroys the TLS socket.
    socket.resetAndDestroy = () => {
      raw.resetAndDestroy();
      return socket;
    };
    handler.onConnection(socket, accepted);
  });
}

function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}

/** Makes clients without SNI get the current certificate. */
export function renewCertificate(server: Server, environments: readonly Environment[]): void {
  const certificate = defaultCertificate(environments);
  if (certificate !== undefined && server instanceof TlsServer) {
    server.setSecureContext(certificate.options);
  }
}

function certificateFor(
  environments: readonly Environment[],
  name: string,
): Certificate | undefined {
  const named = environments.find(({ hosts }) => hosts.includes(name.toLowerCase()));
  return named?.certificate ?? defaultCertificate(environments);
}

/** The certificate of the environment that serves any host, or else of the first environment. */
function defaultCertificate(environments: readonly Environment[]): Certificate | undefined {
  const any = environments.find(({ hosts }) => hosts.length === 0);
  return (any ?? environments[0])?.certificate;
}
