import { isIP } from "node:net";
import type { ConnectionOptions as TlsOptions } from "node:tls";
import { UpstreamSockets } from "../../base/open-files.ts";
import { hostPortOf } from "../../core/address.ts";
import { ClientConnection } from "../../http1/client/client-connection.ts";
import type { Destination } from "../../http1/client/socket.ts";
import type { UpstreamOutages } from "../../telemetry/readiness.ts";
import { ClosingHabit, SOON_MS } from "./closing-habit.ts";
import { ConnectionShares } from "./connection-shares.ts";
import { type AskAddresses, HostAddresses } from "./host-addresses.ts";

export type UpstreamPoolOptions = {
  readonly origins: readonly string[];
  /** The most connections to each upstream. */
  readonly connectionsMax: number;
  readonly connectTimeoutMs: number;
  /** An idle connection is closed after this time, or earlier if the upstream says so. */
  readonly idleMsMax: number;
  /** For https: the PEM to trust in place of the system's, and the name to verify and send. */
  readonly ca: string | undefined;
  readonly serverName: string | undefined;
  /** The certificate of the gateway, with its chain and its private key, PEM. */
  readonly clientCertificate: { readonly cert: string; readonly key: string } | undefined;
  readonly healthCheck: { readonly path: string; readonly everyMs: number } | undefined;
  /** The monotonic clock, in milliseconds. */
  readonly elapsed: () => number;
  /** The clock of this machine, in Unix milliseconds. */
  readonly machineNow: () => number;
  /** Resolves the names of origins; undefined for the system's resolver. */
  readonly askAddresses?: AskAddresses;
};

/** The most bytes of a response head (docs/reference/edge.md#response-head). */
export const HEAD_BYTES_MAX = 65_536;

/**
 * The connections to one upstream and the requests for it. A reload leaves them as they are, so that
 * the limit holds for those of the configurations before together with those of the new one.
 */
export class UpstreamLoad {
  /** Connections of the pool in force. */
  readonly idle: UpstreamConnection[] = [];
  readonly share: ConnectionShares;
  readonly sockets: UpstreamSockets;
  readonly closing = new ClosingHabit();
  /** Whether no further connection could be opened, because no file was left. */
  isShort = false;
  /** Requests that have a connection or wait for one, and tunnels. */
  pending = 0;

  constructor(connectionsMax: number) {
    this.share = new ConnectionShares(connectionsMax);
    this.sockets = new UpstreamSockets(connectionsMax);
  }
}

/** One upstream: its load and its health. */
export class Upstream {
  readonly origin: string;
  /** The authority of the origin, as Host names it. */
  readonly host: string;
  readonly destination: Destination;
  /** Undefined if the host is an address. */
  readonly addresses: HostAddresses | undefined;
  readonly load: UpstreamLoad;
  /** Out of service: it gets no requests while another upstream is in service. */
  out = false;
  /** Set when a probe succeeded while out: `due` until a request is `asked` to decide. */
  trial: "none" | "due" | "asked" = "none";
  /** When the trial became due, on the monotonic clock. */
  trialDueMs = 0;
  /** Probes and trials that failed since the upstream began to fail. */
  failedTrials = 0;
  /** Why the latest of its failures was one, whether of a request or of a probe. */
  why = "";
  /** Requests that failed without a good head, since the last good head. */
  failuresInRow = 0;
  /** Bodies that broke off behind a good head, since the last one that went well. */
  brokenInRow = 0;
  /** Responses in a row that say that it cannot serve, and whether several accounts got them. */
  unavailableInRow = 0;
  unavailableFor = "";
  isUnavailableForSeveral = false;
  /** Failed health checks. */
  failedProbes = 0;
  /** Whether it was up when that was last looked at. */
  wasUp = true;
  /** How it has gone out of service so far; undefined if it never has. */
  outages: UpstreamOutages | undefined;
  /** When the next probe is due, on the monotonic clock; undefined if none is wanted. */
  probeAtMs: number | undefined;
  /** Ends the probe in progress. */
  endProbe: (() => void) | undefined;

  /** `load` is that of the same origin before a reload. */
  constructor(origin: string, options: UpstreamPoolOptions, load?: UpstreamLoad) {
    const url = new URL(origin);
    const { host: name, port } = hostPortOf(url);
    this.origin = origin;
    this.host = url.host;
    this.addresses =
      isIP(name) === 0 ? new HostAddresses(name, options.elapsed, options.askAddresses) : undefined;
    this.load = load ?? new UpstreamLoad(options.connectionsMax);
    const to = { host: name, port, lookup: this.addresses?.lookup, sockets: this.load.sockets };
    this.destination =
      url.protocol === "http:"
        ? { ...to, tls: undefined }
        : { ...to, tls: tlsOptions(name, options), session: { ticket: undefined } };
  }
}

/**
 * Over TLS the upstream's certificate must be valid for `serverName`, or else for the host of its
 * origin. The same name is sent as SNI. The client's Host is never used.
 */
function tlsOptions(
  host: string,
  { ca, serverName, clientCertificate }: UpstreamPoolOptions,
): TlsOptions {
  // RFC 6066 3: an address is never sent as SNI. It is verified all the same.
  const servername = serverName ?? (isIP(host) === 0 ? host : undefined);
  return {
    rejectUnauthorized: true,
    minVersion: "TLSv1.2",
    ALPNProtocols: ["http/1.1"],
    ...(servername === undefined ? {} : { servername }),
    ...(ca === undefined ? {} : { ca }),
    ...clientCertificate,
  };
}

/**
 * One connection to an upstream, for one request at a time. Knowing the connection makes a safe
 * retry possible, because only a reused connection can have died of old age. If its socket died, it
 * reconnects for its next request.
 */
export class UpstreamConnection extends ClientConnection {
  readonly upstream: Upstream;
  /** The account of the request that it carries. */
  account = "";

  constructor(upstream: Upstream, options: UpstreamPoolOptions) {
    super({
      destination: upstream.destination,
      headBytesMax: HEAD_BYTES_MAX,
      connectTimeoutMs: options.connectTimeoutMs,
      idleMsMax: options.idleMsMax,
      elapsed: options.elapsed,
    });
    this.upstream = upstream;
  }

  /** Also closes it if it leads to an address that the upstream's name does not lead to any more. */
  override closeIfExpired(): void {
    const { addresses } = this.upstream;
    const address = addresses?.hasRetired ? this.remoteAddress : undefined;
    if (address !== undefined && addresses?.isRetired(address)) this.renew();
    else super.closeIfExpired();
  }

  protected override onClosedIdle(): void {
    if (this.restedMs <= SOON_MS) this.upstream.load.closing.onClosedSoon();
  }
}
