import { isIP } from "node:net";
import type { Readable } from "node:stream";
import { buildConnector, Client, type Dispatcher } from "undici";
import { FairShare } from "./fair-share.ts";

export type UpstreamsOptions = {
  readonly origins: readonly string[];
  /** Connections to each upstream, at most. */
  readonly connectionsMax: number;
  readonly connectTimeoutMs: number;
  readonly headerBytesMax: number;
  /** For https origins: PEM to trust in place of the system's, and the name to ask and verify for. */
  readonly ca: string | undefined;
  readonly serverName: string | undefined;
  readonly healthCheck: { readonly path: string; readonly everyMs: number } | undefined;
  /** The monotonic clock, in milliseconds. */
  readonly elapsed: () => number;
};

/** Below the idle time of common backends (5 s and up), so that we are the first to close. */
const KEEP_ALIVE_MS = 4_000;

/** One backend: its connections, the requests that wait for one, and its health. */
export class Upstream {
  readonly origin: string;
  readonly connect: buildConnector.connector;
  readonly idle: BackendConnection[] = [];
  readonly share: FairShare<BackendConnection>;
  pending = 0;
  /** No requests go there, but for probes. */
  out = false;
  /** Failures of requests. */
  failuresInRow = 0;
  /** Failures of the health check. */
  failedProbes = 0;
  /** On the monotonic clock: when the next probe is due; undefined while none is wanted. */
  probeAtMs: number | undefined;
  /** Ends the probe under way. */
  endProbe: (() => void) | undefined;

  constructor(origin: string, options: UpstreamsOptions) {
    this.origin = origin;
    this.connect = connectorFor(origin, options);
    this.share = new FairShare(options.connectionsMax);
  }
}

/**
 * Opens connections to one backend. Over TLS its certificate must be valid for `serverName`, or for
 * the host of its origin, which is also the name asked for (SNI): never for the client's Host, by
 * which the library would go.
 */
function connectorFor(origin: string, options: UpstreamsOptions): buildConnector.connector {
  const { ca, serverName, connectTimeoutMs } = options;
  const { protocol, hostname } = new URL(origin);
  // RFC 6066 3: an address is no name to ask for; it is verified all the same.
  const name = serverName ?? (isIP(hostname.replace(/^\[|\]$/g, "")) === 0 ? hostname : undefined);
  const isTls = protocol === "https:";
  const connect = buildConnector({
    allowH2: false,
    timeout: connectTimeoutMs,
    ...(isTls ? { rejectUnauthorized: true, minVersion: "TLSv1.2" } : {}),
    ...(isTls && ca !== undefined ? { ca } : {}),
  });
  return ({ servername: _, ...to }, callback) => {
    connect(isTls && name !== undefined ? { ...to, servername: name } : to, callback);
  };
}

export type BackendCall = {
  readonly path: string;
  readonly method: Dispatcher.HttpMethod;
  readonly headers: string[];
  readonly body: Readable | null;
};

/**
 * One connection to a backend, for one request at a time. Knowing the connection makes a
 * safe retry possible: only a reused one can have died of old age. One whose socket died
 * connects anew with its next request.
 */
export class BackendConnection {
  readonly upstream: Upstream;
  readonly #options: UpstreamsOptions;
  #client: Client;
  /** The account whose request it carries. */
  account = "";
  /** Responses on the present connection: 0 means that it is new, or not there yet. */
  answered = 0;

  constructor(upstream: Upstream, options: UpstreamsOptions) {
    this.upstream = upstream;
    this.#options = options;
    this.#client = this.#newClient();
  }

  get reused(): boolean {
    return this.answered > 0;
  }

  send({ path, method, headers, body }: BackendCall, handler: Dispatcher.DispatchHandler): void {
    // The same name each time, or the library would connect anew when a client's Host differs.
    const servername = this.upstream.origin;
    const request = { path, method, headers, body, servername };
    this.#client.dispatch(request, handler);
  }

  /** The next request goes over a new connection. Only between requests. */
  renew(): void {
    void this.#client.close();
    this.#client = this.#newClient();
  }

  close(): Promise<void> {
    return this.#client.close();
  }

  #newClient(): Client {
    const client = new Client(this.upstream.origin, {
      pipelining: 1,
      connect: this.upstream.connect,
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
      // Time limits are the gateway's own: the library's are coarse, and a timer each.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: 4 * this.#options.headerBytesMax,
    });
    this.answered = 0;
    client.on("connect", () => {
      if (client === this.#client) this.answered = 0;
    });
    return client;
  }
}
