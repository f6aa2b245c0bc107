import { isIP } from "node:net";
import type { ConnectionOptions as TlsOptions } from "node:tls";
import { ClientConnection } from "../../http1/client/client-connection.ts";
import type { Destination } from "../../http1/client/socket.ts";
import { ConnectionShares } from "./connection-shares.ts";
import { HostAddresses } from "./host-addresses.ts";

export type UpstreamPoolOptions = {
  readonly origins: readonly string[];
  /** Connections to each upstream, at most. */
  readonly connectionsMax: number;
  readonly connectTimeoutMs: number;
  readonly headerBytesMax: number;
  /** An idle connection is closed after this time, earlier if the upstream says so. */
  readonly idleMsMax: number;
  /** For https origins: PEM to trust in place of the system's, and the name to ask and verify for. */
  readonly ca: string | undefined;
  readonly serverName: string | undefined;
  /** The certificate of the gateway, with its chain and its private key, PEM. */
  readonly clientCertificate: { readonly cert: string; readonly key: string } | undefined;
  readonly healthCheck: { readonly path: string; readonly everyMs: number } | undefined;
  /** The monotonic clock, in milliseconds. */
  readonly elapsed: () => number;
};

/** Few interim responses are passed on, and responseTimeout ends those that go on and on. */
const INTERIM_MAX = Number.POSITIVE_INFINITY;

/** One backend: its connections, the requests that wait for one, and its health. */
export class Upstream {
  readonly origin: string;
  /** The authority of the origin, as Host names it. */
  readonly host: string;
  readonly destination: Destination;
  /** Undefined if the host is an address. */
  readonly addresses: HostAddresses | undefined;
  readonly idle: UpstreamConnection[] = [];
  readonly share: ConnectionShares<UpstreamConnection>;
  pending = 0;
  /** No requests go there while there is another one in service. */
  out = false;
  /** A probe went well while it was out: `due` for one request, which is `asked` to decide. */
  trial: "none" | "due" | "asked" = "none";
  /** Probes and trials that failed since it began to fail. */
  failedTrials = 0;
  /** Failed requests. */
  failuresInRow = 0;
  /** Answers in a row that say that it cannot serve, and whether they came to several accounts. */
  unavailableInRow = 0;
  unavailableFor = "";
  isUnavailableForSeveral = false;
  /** Failed health checks. */
  failedProbes = 0;
  /** On the monotonic clock: when the next probe is due; undefined while none is wanted. */
  probeAtMs: number | undefined;
  /** Ends the probe under way. */
  endProbe: (() => void) | undefined;

  constructor(origin: string, options: UpstreamPoolOptions) {
    this.origin = origin;
    this.host = new URL(origin).host;
    const host = hostOf(origin);
    this.addresses = isIP(host) === 0 ? new HostAddresses(host, options.elapsed) : undefined;
    this.destination = destinationOf(origin, options, this.addresses);
    this.share = new ConnectionShares(options.connectionsMax);
  }
}

/** IPv6 without brackets. */
function hostOf(origin: string): string {
  return new URL(origin).hostname.replace(/^\[|\]$/g, "");
}

/**
 * Over TLS the backend's certificate must be valid for `serverName`, or for the host of its origin,
 * which is also the name asked for (SNI): never for the client's Host.
 */
function destinationOf(
  origin: string,
  { ca, serverName, clientCertificate }: UpstreamPoolOptions,
  addresses: HostAddresses | undefined,
): Destination {
  const { protocol, port } = new URL(origin);
  const host = hostOf(origin);
  const lookup = addresses?.lookup;
  if (protocol === "http:") return { host, port: Number(port || 80), tls: undefined, lookup };
  // RFC 6066 3: an address is no name to ask for; it is verified all the same.
  const servername = serverName ?? (isIP(host) === 0 ? host : undefined);
  const tls: TlsOptions = {
    rejectUnauthorized: true,
    minVersion: "TLSv1.2",
    ALPNProtocols: ["http/1.1"],
    ...(servername === undefined ? {} : { servername }),
    ...(ca === undefined ? {} : { ca }),
    ...clientCertificate,
  };
  return { host, port: Number(port || 443), tls, lookup, session: { ticket: undefined } };
}

/**
 * One connection to a backend, for one request at a time. Knowing the connection makes a safe retry
 * possible: only a reused one can have died of old age. One whose socket died connects again with its
 * next request.
 */
export class UpstreamConnection extends ClientConnection {
  readonly upstream: Upstream;
  /** The account whose request it carries. */
  account = "";

  constructor(upstream: Upstream, options: UpstreamPoolOptions) {
    super({
      destination: upstream.destination,
      limits: { headBytesMax: 4 * options.headerBytesMax, interimMax: INTERIM_MAX },
      connectTimeoutMs: options.connectTimeoutMs,
      idleMsMax: options.idleMsMax,
      elapsed: options.elapsed,
    });
    this.upstream = upstream;
  }
}
