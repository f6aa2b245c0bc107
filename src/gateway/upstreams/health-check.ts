import { buildConnector, Client } from "undici";
import type { Upstream, UpstreamPoolOptions } from "./upstream.ts";

const USER_AGENT = "tollgate-health";

/**
 * Starts the probe of a backend where one is due and none is under way. With a health check it asks
 * for that path, and 2xx is well; without, a bare connection says that a backend is back, and none
 * sees a request that it cannot explain. Either has `connectTimeoutMs` for all of it.
 */
export function startDueProbe(
  upstream: Upstream,
  options: UpstreamPoolOptions,
  done: (wentWell: boolean) => void,
): void {
  const { probeAtMs, endProbe } = upstream;
  if (probeAtMs === undefined || endProbe !== undefined || probeAtMs > options.elapsed()) return;
  const timer = setTimeout(() => end(false), options.connectTimeoutMs);
  let stop = () => {};
  let ended = false;
  const end = (wentWell: boolean | undefined) => {
    if (ended) return;
    ended = true;
    clearTimeout(timer);
    upstream.endProbe = undefined;
    stop();
    if (wentWell !== undefined) done(wentWell);
  };
  upstream.endProbe = () => end(undefined);
  const { healthCheck } = options;
  const probed = { origin: upstream.origin, connect: connectorFor(upstream, options) };
  stop = healthCheck === undefined ? tryConnect(probed, end) : ask(probed, healthCheck, end);
}

type Probed = { readonly origin: string; readonly connect: buildConnector.connector };

/** Connects as requests do: over TLS with the same trust, and for the same name. */
function connectorFor(
  { destination: { tls, lookup } }: Upstream,
  { connectTimeoutMs: timeout }: UpstreamPoolOptions,
): buildConnector.connector {
  const connect = buildConnector({
    ...tls,
    ...(lookup && { lookup }),
    allowH2: false,
    timeout,
  } as buildConnector.BuildOptions);
  const servername = tls?.servername;
  return ({ servername: _, ...to }, callback) => {
    connect(servername === undefined ? to : { ...to, servername }, callback);
  };
}

function tryConnect({ origin, connect }: Probed, end: (wentWell: boolean) => void): () => void {
  const { protocol, hostname, port, host } = new URL(origin);
  let stopped = false;
  const name = hostname.replace(/^\[|\]$/g, "");
  connect({ protocol, hostname: name, port, host }, (error, socket) => {
    socket?.on("error", () => {}).destroy();
    if (!stopped) end(error === null);
  });
  return () => {
    stopped = true;
  };
}

/** A connection of its own: the check judges the backend, and not the age of a connection. */
function ask(
  { origin, connect }: Probed,
  { path }: { readonly path: string },
  end: (wentWell: boolean) => void,
): () => void {
  const client = new Client(origin, { connect, headersTimeout: 0, bodyTimeout: 0 });
  const headers = { "User-Agent": USER_AGENT, Accept: "*/*" };
  client.dispatch(
    { path, method: "GET", headers, reset: true },
    {
      onRequestStart() {},
      onResponseStart(_controller, status) {
        if (status >= 200) end(status < 300);
      },
      onResponseData() {},
      onResponseEnd() {},
      onResponseError() {
        end(false);
      },
    },
  );
  return () => void client.destroy().catch(() => {});
}
