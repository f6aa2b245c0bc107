import { buildConnector, Client } from "undici";
import type { Upstream, UpstreamPoolOptions } from "./upstream.ts";

const USER_AGENT = "tollgate-health";

/**
 * Starts the probe of an upstream if one is due and none is in progress. With a health check the
 * probe requests its path, and a 2xx response is a success. Without one the probe only connects, so
 * that the upstream sees no request that it cannot explain. Each probe has `connectTimeoutMs` in
 * all.
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

/** Connects as requests do: over TLS with the same trust and the same server name. */
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

/** Uses a new connection, because the check judges the upstream and not an old connection. */
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
