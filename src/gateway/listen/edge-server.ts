import { createServer, type Server, type Socket } from "node:net";
import { createServer as createTlsServer, Server as TlsServer } from "node:tls";
import { DISCARD_BYTES_MAX, endThenDiscard } from "../../base/linger.ts";
import { type Environment, type GatewayContext, loosestLimits } from "../exchange/environment.ts";
import type { Certificate } from "../runtime/certificate.ts";
import { rawResponse } from "./parser-error.ts";

/** A client may end its side first and still get its answer; small answers go out at once. */
const OPTIONS = { allowHalfOpen: true, noDelay: true };

/**
 * A server for an address: over TLS where its environments have certificates, which they all do or
 * none (the configuration was checked). HTTP/1.1 is all that is offered, by ALPN too. A name in the
 * handshake (SNI) chooses the certificate of the environment that has this host. `onConnection`
 * takes each connection, over TLS when its handshake is over.
 */
export function createEdgeServer(
  gateway: GatewayContext,
  serves: () => readonly Environment[],
  onConnection: (socket: Socket) => void,
): Server {
  const first = defaultCertificate(serves());
  if (first === undefined) return createServer(OPTIONS, onConnection);
  const server = createTlsServer(
    {
      ...OPTIONS,
      ...first.options,
      ALPNProtocols: ["http/1.1"],
      handshakeTimeout: loosestLimits(serves()).headersTimeoutMs,
      SNICallback: (name, done) => done(null, certificateFor(serves(), name)?.context),
    },
    onConnection,
  );
  takePlainHttp(server, () => loosestLimits(serves()).headersTimeoutMs);
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
 * a TLS library would hang up without a word (docs/reference/edge.md#tls).
 */
function takePlainHttp(server: TlsServer, firstByteMs: () => number): void {
  const [secure] = server.listeners("connection") as ((socket: Socket) => void)[];
  server.removeAllListeners("connection");
  server.on("connection", (socket: Socket) => {
    const drop = () => socket.destroy();
    socket.on("error", drop);
    socket.setTimeout(firstByteMs(), drop);
    socket.once("data", (first: Buffer) => {
      socket.pause();
      socket.setTimeout(0, drop);
      if (first[0] === HANDSHAKE) {
        socket.off("error", drop);
        socket.unshift(first);
        secure?.call(server, socket);
      } else {
        endThenDiscard(socket, rawResponse(400, PLAIN), DISCARD_BYTES_MAX);
      }
    });
  });
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
