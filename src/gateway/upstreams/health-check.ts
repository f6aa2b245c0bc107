import type { buildConnector } from "undici";
import { setTimeoutAfterPoll } from "../../base/event-loop.ts";
import { isFilesShortage } from "../../base/open-files.ts";
import { openSocket } from "../../http1/client/socket.ts";
import { endConnection } from "../../http1/write/end-connection.ts";
import type { Upstream, UpstreamPoolOptions } from "./upstream.ts";

/** A probe that the gateway has no file for says nothing, and is made again so soon. */
const SHORT_MS = 1_000;
const USER_AGENT = "tollgate-health";

/**
 * Starts the probe of an upstream if one is due and none is in progress. With a health check the
 * probe requests its path, and a 2xx response is a success. Without one the probe only connects, so
 * that the upstream sees no request that it cannot explain. Each probe has `connectTimeoutMs` in
 * all. `done` is told what was wrong, and undefined if nothing was.
 */
export function startDueProbe(
  upstream: Upstream,
  options: UpstreamPoolOptions,
  done: (wrong: string | undefined) => void,
): void {
  const { probeAtMs, endProbe } = upstream;
  if (probeAtMs === undefined || endProbe !== undefined || probeAtMs > options.elapsed()) return;
  const { healthCheck, connectTimeoutMs } = options;
  const timer = setTimeoutAfterPoll(connectTimeoutMs, () => {
    end(`no ${healthCheck === undefined ? "connection" : "answer"} within ${connectTimeoutMs} ms`);
  });
  let stop = () => {};
  let ended = false;
  const leave = () => {
    ended = true;
    clearTimeout(timer);
    upstream.endProbe = undefined;
    stop();
  };
  const end = (wrong: string | undefined) => {
    if (ended) return;
    leave();
    if (wrong !== undefined && isFilesShortage(wrong)) {
      upstream.probeAtMs = options.elapsed() + SHORT_MS;
      return;
    }
    done(wrong === undefined || healthCheck === undefined ? wrong : `health check: ${wrong}`);
  };
  upstream.endProbe = leave;
  stop =
    healthCheck === undefined
      ? tryConnect(upstream, end)
      : ask({ upstream, options, path: healthCheck.path }, end);
}

/** Takes the reason for which a probe failed, or undefined. */
type EndProbe = (wrong: string | undefined) => void;

type Check = {
  readonly upstream: Upstream;
  readonly options: UpstreamPoolOptions;
  readonly path: string;
};

/** Connects as requests do, and sends nothing. */
function tryConnect({ destination }: Upstream, end: EndProbe): () => void {
  const socket = openSocket(destination, {
    onConnect: () => end(undefined),
    onRead: () => {},
    onDrain: () => {},
    onEnd: () => {},
    onClose: (_socket, why) => end(why),
  });
  return () => endConnection(socket);
}

/**
 * Uses a new connection, because the check judges the upstream and not an old connection. undici is
 * loaded by the first check, which is due when the gateway starts: without checks it saves each
 * start a tenth of its time.
 */
function ask({ upstream, options, path }: Check, end: EndProbe): () => void {
  let stopped = false;
  let stop = () => {};
  void import("undici").then(
    ({ buildConnector, Client }) => {
      if (stopped) return;
      const connect = connectorOf(buildConnector, upstream, options);
      const client = new Client(upstream.origin, { connect, headersTimeout: 0, bodyTimeout: 0 });
      stop = () => void client.destroy().catch(() => {});
      const headers = { "User-Agent": USER_AGENT, Accept: "*/*" };
      client.dispatch(
        { path, method: "GET", headers, reset: true },
        {
          onRequestStart() {},
          onResponseStart(_controller, status) {
            if (status >= 200) end(status < 300 ? undefined : `answered ${status}`);
          },
          onResponseData() {},
          onResponseEnd() {},
          onResponseError(_controller, error) {
            end(reasonOf(error));
          },
        },
      );
    },
    (error: Error) => end(reasonOf(error)),
  );
  return () => {
    stopped = true;
    stop();
  };
}

/** The code of an error of the system or of TLS. Those of undici tell less than its words. */
function reasonOf({ code = "UND_ERR", message }: NodeJS.ErrnoException): string {
  // undici blames the body for each error that it finds behind a Content-Length, also in the head.
  // The check has ended before a body comes.
  if (code === "UND_ERR_RES_CONTENT_LENGTH_MISMATCH") {
    return "the head has two Content-Length fields, or one beside Transfer-Encoding, or is malformed";
  }
  return code.startsWith("UND_ERR") ? message : code;
}

/** Connects as requests do: over TLS with the same trust and the same server name. */
function connectorOf(
  build: typeof buildConnector,
  { destination: { tls, lookup } }: Upstream,
  { connectTimeoutMs: timeout }: UpstreamPoolOptions,
): buildConnector.connector {
  const connect = build({
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
