import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { lingerOnClose } from "../base/linger.ts";
import { errorMessage } from "../base/messages.ts";
import { createServer } from "../base/node-http.ts";
import { ADMIN_CONNECTIONS_MAX } from "../base/open-files.ts";
import type { Config } from "../config/config.ts";
import { formatHostPort, type HostPort } from "../core/address.ts";
import type { MetricSources } from "../telemetry/metrics/metric-readers.ts";
import type { MetricsRecorder } from "../telemetry/metrics/metrics-recorder.ts";
import { type AnswerDeps, answerRequest } from "./answer-request.ts";
import { KeptList } from "./api/kept-list.ts";
import { Dashboard } from "./dashboard-stats.ts";
import { atMostEvery } from "./http/at-most-every.ts";
import { evictConnections } from "./http/connection-limit.ts";
import { EventStream, type EventStreamOptions, type StreamedEvent } from "./http/event-stream.ts";
import type { GuardOptions } from "./http/guard.ts";
import { meterInput } from "./http/metered-input.ts";
import { handleParserErrors } from "./http/parser-error.ts";
import { LINGER_BYTES_MAX } from "./http/request-body.ts";
import { type AdminResponse, problemResponse, securityFields } from "./http/response.ts";
import { createPrometheusMetrics, type PrometheusMetrics } from "./prometheus.ts";
import { ReadingHistory } from "./reading-history.ts";

export type AdminDeps = Omit<AnswerDeps, "events" | "metrics" | "usageList"> & {
  /** The metrics as text. */
  readonly metrics: Pick<PrometheusMetrics, "render">;
  /** The current figures, for the live stream. Never rejects. */
  readonly figures: () => Promise<object>;
  /**
   * The token and the further names in the configuration in force. The token is "" if none is set.
   */
  readonly guard: () => Pick<GuardOptions, "token" | "hosts">;
};

/**
 * `headersTimeoutMs` bounds how long a silent client may hold a socket, `responseTimeoutMs` how long
 * a slow reader may take for a response, `streamMs` how long a stream of events is kept if
 * another reader wants its place.
 */
export type AdminLimits = {
  readonly connections: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly responseTimeoutMs: number;
  readonly streamMs: number;
};

const LIMITS: AdminLimits = {
  connections: ADMIN_CONNECTIONS_MAX,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 30_000,
  responseTimeoutMs: 60_000,
  streamMs: 300_000,
};
const HEADER_BYTES_MAX = 16_384;
const WATCHERS_MAX = 16;
const FIGURES_EVERY_MS = 1_000;
/** Events between two readings. If more come, the streams end. */
const HAPPENED_MAX = 10_000;
const CLOSE_MS = 1_000;
const RENDER_EVERY_MS = 1_000;

export type AdminListener = { readonly url: string; close(): Promise<void> };

/**
 * Opens the admin listener (docs/reference/admin.md) on a port of its own. Rejects with the
 * system's error when it cannot listen.
 */
export async function startAdmin(
  options: AdminDeps & {
    readonly listen: HostPort;
    readonly limits?: Partial<AdminLimits>;
  },
): Promise<AdminListener> {
  const { listen } = options;
  const limits = { ...LIMITS, ...options.limits };
  const events = new EventStream({
    everyMs: FIGURES_EVERY_MS,
    ...{ watchersMax: WATCHERS_MAX, keptMs: limits.streamMs },
    token: () => options.guard().token,
    ...newsOf(options),
  });
  const metrics = atMostEvery(RENDER_EVERY_MS, async () =>
    Buffer.from(await options.metrics.render()),
  );
  const deps: AnswerDeps = { ...options, events, metrics, usageList: new KeptList() };
  const serve = (request: IncomingMessage, response: ServerResponse) => {
    const deadline = setTimeout(() => request.socket.destroy(), limits.responseTimeoutMs);
    response.once("close", () => clearTimeout(deadline));
    void answerRequest(deps, { host: listen.host, ...options.guard() }, request)
      .catch((error: unknown) => failed(deps, error))
      .then((told) => {
        if (told.stream !== undefined) clearTimeout(deadline);
        send(request, response, told);
      });
  };
  const server = createServer(
    {
      headersTimeout: limits.headersTimeoutMs,
      requestTimeout: limits.requestTimeoutMs,
      connectionsCheckingInterval: Math.min(1_000, limits.headersTimeoutMs),
      keepAliveTimeout: 5_000,
      maxHeaderSize: HEADER_BYTES_MAX,
      // readGuardFields checks it, so that the response has the Error shape.
      requireHostHeader: false,
    },
    serve,
  );
  evictConnections(server, limits.connections);
  server.on("checkExpectation", (request, response) => {
    send(
      request,
      response,
      problemResponse("expectation_failed", "Only 100-continue is supported"),
    );
  });
  handleParserErrors(server);
  meterInput(server);
  await listenOn(server, listen);
  // The system can refuse a connection (no file descriptors left). That must not end the process.
  server.on("error", (error) => options.log.error("admin_listener_failed", { why: error.message }));
  const closeAll = () => {
    events.close();
    deps.usageList.drop();
    return close(server);
  };
  return { url: urlOf(server), close: closeAll };
}

/** The content of the live stream: the figures, and the events since the stream began. */
function newsOf({
  figures,
  recent,
}: AdminDeps): Pick<EventStreamOptions, "begin" | "read" | "end"> {
  let happened: StreamedEvent[] = [];
  let unsubscribe = () => {};
  const end = () => {
    unsubscribe();
    happened = [];
  };
  const begin = () => {
    end();
    unsubscribe = recent.onAdd((event) => {
      if (happened.length > HAPPENED_MAX) return;
      happened.push({ event: "happened", data: JSON.stringify(event) });
    });
  };
  const read = async () => {
    const told = happened;
    happened = [];
    if (told.length > HAPPENED_MAX) return undefined;
    const news = [{ event: "figures", data: JSON.stringify(await figures()), isPassing: true }];
    return [...news, ...told];
  };
  return { begin, read, end };
}

/** Handles unexpected errors, in one place. */
function failed(deps: AnswerDeps, error: unknown): AdminResponse {
  deps.log.error("admin_request_failed", { why: errorMessage(error) });
  return problemResponse("internal_error", "The admin listener failed: the log says why");
}

function send(request: IncomingMessage, response: ServerResponse, told: AdminResponse): void {
  const fields = ["Content-Type", told.type, ...securityFields(told.policy), ...told.fields];
  if (told.stream === undefined) {
    fields.push("Content-Length", String(Buffer.byteLength(told.body)));
  }
  // An unread body may be of any length, so the next request of the connection is not awaited.
  if (!request.complete && hasMore(request)) {
    fields.push("Connection", "close");
    lingerOnClose(request.socket, request, LINGER_BYTES_MAX);
  }
  response.writeHead(told.status, fields);
  if (request.method === "HEAD") response.end();
  else if (told.stream !== undefined) told.stream(response);
  else response.end(told.body);
}

function hasMore({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

function listenOn(server: Server, { host, port }: HostPort): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject).listen({ host, port }, resolve);
  });
}

function urlOf(server: Server): string {
  const { address: host, port } = server.address() as AddressInfo;
  return `http://${formatHostPort({ host, port })}`;
}

/** Gives responses in progress one second to end. */
async function close(server: Server): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  const timer = setTimeout(() => server.closeAllConnections(), CLOSE_MS);
  await closed;
  clearTimeout(timer);
}

export type AdminOptions = Omit<
  AdminDeps,
  "metrics" | "figures" | "readings" | "version" | "guard"
> & {
  readonly metrics: MetricsRecorder;
  readonly metricSources: MetricSources;
  /** Updates the counts before each scrape. */
  readonly gather?: () => Promise<void>;
};

/** Opens the admin listener with its metrics. Rejects with the system's error. */
export async function openAdmin(
  admin: NonNullable<Config["admin"]>,
  options: AdminOptions,
): Promise<AdminListener> {
  const { metrics: counting, metricSources, gather } = options;
  const metrics = createPrometheusMetrics(metricSources, counting);
  const render = async () => {
    await gather?.();
    return metrics.render();
  };
  const dashboard = new Dashboard(options);
  const listener = await startAdmin({
    ...options,
    listen: admin.listen,
    guard: () => options.config().admin ?? admin,
    version: metricSources.version,
    metrics: { render },
    figures: () => dashboard.read(),
    readings: () => history.all(),
  });
  const history = new ReadingHistory(() => dashboard.readIdle());
  const close = async () => {
    history.close();
    await listener.close();
  };
  return { url: listener.url, close };
}
