import {
  type Attributes,
  type Context,
  createTraceState,
  type Histogram,
  type Meter,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import {
  ATTR_CLIENT_ADDRESS,
  ATTR_ERROR_TYPE,
  ATTR_HTTP_REQUEST_METHOD,
  ATTR_HTTP_REQUEST_METHOD_ORIGINAL,
  ATTR_HTTP_REQUEST_RESEND_COUNT,
  ATTR_HTTP_RESPONSE_STATUS_CODE,
  ATTR_HTTP_ROUTE,
  ATTR_NETWORK_PROTOCOL_VERSION,
  ATTR_SERVER_ADDRESS,
  ATTR_SERVER_PORT,
  ATTR_URL_FULL,
  ATTR_URL_PATH,
  ATTR_URL_SCHEME,
  METRIC_HTTP_CLIENT_REQUEST_DURATION,
  METRIC_HTTP_SERVER_REQUEST_DURATION,
} from "@opentelemetry/semantic-conventions";
import { AgingMap } from "../../base/aging-map.ts";
import { hostPortOf } from "../../core/address.ts";
import {
  childTraceFields,
  readTraceContext,
  type TraceContext,
  type TraceFields,
} from "../../core/http/trace-context.ts";
import { type ForeignKeyFormat, maskKeysInPath } from "../../core/keys/key.ts";
import { isUpstreamFault } from "../../core/refusal.ts";
import type { AccessLogEntry } from "../log/access-log-entry.ts";
import { DURATION_BUCKETS } from "../metrics/metric-vec.ts";
import { isLabelled } from "../metrics/request-metrics.ts";
import type {
  AttemptFailure,
  ForwardedRequest,
  RequestFacts,
  RequestSpan,
  Tracing,
  UpstreamSpan,
} from "./tracing.ts";

/** The client left, or stopped reading. No HTTP status describes that. */
const GONE = 499;
/** The error of a request that failed on neither side. */
const GONE_ERROR = "client_gone";

type Instruments = {
  readonly tracer: Tracer;
  /** Seconds. */
  readonly served: Histogram;
  readonly forwarded: Histogram;
};

/**
 * Spans and durations by the semantic conventions for HTTP of OpenTelemetry, stable since 1.23.
 * docs/reference/telemetry.md names the attributes. Neither contains a query, because a key may be
 * in it.
 */
export function createTracing(tracer: Tracer, meter: Meter): Tracing {
  const advice = { explicitBucketBoundaries: [...DURATION_BUCKETS] };
  const instruments = {
    tracer,
    served: meter.createHistogram(METRIC_HTTP_SERVER_REQUEST_DURATION, {
      description: "Duration of HTTP server requests.",
      unit: "s",
      advice,
    }),
    forwarded: meter.createHistogram(METRIC_HTTP_CLIENT_REQUEST_DURATION, {
      description: "Duration of HTTP client requests.",
      unit: "s",
      advice,
    }),
  };
  return {
    begin: (rawHeaders, headMs = 0, foreignKeys = []) => {
      const beganMs = performance.now() - headMs;
      const received = readTraceContext(rawHeaders);
      const parent = parentOf(received, foreignKeys);
      return new ServerSpan(instruments, { received, parent }, beganMs);
    },
  };
}

class ServerSpan implements RequestSpan {
  readonly traceId: string;
  readonly #instruments: Instruments;
  readonly #received: TraceContext | undefined;
  readonly #span: Span;
  readonly #context: Context;
  /**
   * Turns performance.now() into Unix milliseconds for all spans of the request. The SDK would read
   * Date.now() for each, whose whole milliseconds would let an attempt end after its request.
   */
  readonly #originMs = Date.now() - performance.now();
  /** On performance.now(). */
  readonly #beganMs: number;
  #forwards = 0;
  #last: ClientSpan | undefined;

  constructor(
    instruments: Instruments,
    { received, parent }: { readonly received: TraceContext | undefined; readonly parent: Context },
    beganMs: number,
  ) {
    this.#instruments = instruments;
    this.#beganMs = beganMs;
    this.#received = received;
    const { tracer } = instruments;
    const options = { kind: SpanKind.SERVER, startTime: this.#originMs + beganMs };
    this.#span = tracer.startSpan("HTTP", options, parent);
    this.#context = trace.setSpan(ROOT_CONTEXT, this.#span);
    this.traceId = this.#span.spanContext().traceId;
  }

  forward(request: ForwardedRequest): UpstreamSpan {
    const within = {
      ...{ context: this.#context, received: this.#received, tries: this.#forwards },
      originMs: this.#originMs,
    };
    this.#forwards += 1;
    this.#last = new ClientSpan(this.#instruments, within, request);
    return this.#last;
  }

  end(entry: AccessLogEntry, facts: RequestFacts): void {
    const error = errorOf(entry, this.#last?.failure);
    const attributes = servedAttributes(entry, facts, error);
    this.#instruments.served.record(entry.durationMs / 1_000, attributes);
    const span = this.#span;
    if (!span.isRecording()) return;
    const method = isLabelled(entry.method) ? entry.method : "HTTP";
    span.updateName(entry.route === undefined ? method : `${method} ${entry.route}`);
    span.setAttributes(attributes);
    span.setAttributes(requestAttributes(entry, facts));
    if (error !== undefined && error !== GONE_ERROR) span.setStatus({ code: SpanStatusCode.ERROR });
    span.end(this.#originMs + this.#beganMs + entry.durationMs);
  }
}

/** The client's span. Members of its tracestate with a key are left out: a mask is no valid value. */
function parentOf(
  received: TraceContext | undefined,
  foreignKeys: readonly ForeignKeyFormat[],
): Context {
  if (received === undefined) return ROOT_CONTEXT;
  const { traceId, parentId, flags, tracestate } = received;
  const traceState = tracestate && createTraceState(maskKeysInPath(tracestate, foreignKeys));
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId: parentId,
    traceFlags: flags,
    isRemote: true,
    ...(traceState && { traceState }),
  });
}

/** The attributes of both span and metric. Each has few values. */
function servedAttributes(
  entry: AccessLogEntry,
  { scheme, version }: RequestFacts,
  error: string | undefined,
): Attributes {
  const { env, route, status } = entry;
  return {
    [ATTR_HTTP_REQUEST_METHOD]: isLabelled(entry.method) ? entry.method : "_OTHER",
    [ATTR_URL_SCHEME]: scheme,
    ...(route !== undefined && { [ATTR_HTTP_ROUTE]: route }),
    ...(status !== GONE && { [ATTR_HTTP_RESPONSE_STATUS_CODE]: status }),
    ...(version !== undefined && { [ATTR_NETWORK_PROTOCOL_VERSION]: version }),
    ...(error !== undefined && { [ATTR_ERROR_TYPE]: error }),
    ...(env !== undefined && { "tollgate.environment": env }),
  };
}

/** The attributes of the span alone. */
function requestAttributes(entry: AccessLogEntry, { scheme, host }: RequestFacts): Attributes {
  const { account, plan, code, method } = entry;
  return {
    [ATTR_URL_PATH]: entry.path,
    [ATTR_CLIENT_ADDRESS]: entry.client,
    ...(host !== undefined && serverOf(`${scheme}://${host}`)),
    // The original method is added only if it is a word, because clients may send any text there.
    ...(!isLabelled(method) && /^[A-Z]{1,20}$/.test(method)
      ? { [ATTR_HTTP_REQUEST_METHOD_ORIGINAL]: method }
      : {}),
    "tollgate.request_id": entry.id,
    "tollgate.decision": entry.decision,
    "tollgate.charged": entry.charged,
    ...(account !== undefined && { "tollgate.account": account }),
    ...(plan !== undefined && { "tollgate.plan": plan }),
    ...(code !== undefined && { "tollgate.code": code }),
  };
}

/**
 * `failure` is that of the last attempt: the upstream broke off the response after its own head.
 */
function errorOf({ status, code }: AccessLogEntry, failure: AttemptFailure | undefined) {
  if (status === GONE) return GONE_ERROR;
  if (status >= 500) return code ?? String(status);
  if (failure === undefined || status >= 400) return undefined;
  return failure !== "client_gone" && isUpstreamFault(failure) ? failure : GONE_ERROR;
}

type ParentContext = {
  readonly context: Context;
  readonly received: TraceContext | undefined;
  /** The number of earlier attempts. */
  readonly tries: number;
  /** The Unix milliseconds at which performance.now() is 0. */
  readonly originMs: number;
};

class ClientSpan implements UpstreamSpan {
  readonly fields: TraceFields;
  failure: AttemptFailure | undefined;
  readonly #instruments: Instruments;
  readonly #span: Span;
  readonly #attributes: Attributes;
  readonly #startMs = performance.now();
  readonly #originMs: number;
  #status: number | undefined;
  #ended = false;

  constructor(
    instruments: Instruments,
    { context, received, tries, originMs }: ParentContext,
    request: ForwardedRequest,
  ) {
    const { method, origin } = request;
    this.#instruments = instruments;
    this.#originMs = originMs;
    this.#attributes = { [ATTR_HTTP_REQUEST_METHOD]: method, ...serverOf(origin) };
    const { tracer } = instruments;
    const startTime = originMs + this.#startMs;
    const span = tracer.startSpan(method, { kind: SpanKind.CLIENT, startTime }, context);
    this.#span = span;
    const { traceId, spanId, traceFlags } = span.spanContext();
    const sampled = (traceFlags & 1) === 1;
    this.fields = childTraceFields({ traceId, spanId, sampled }, received);
    if (!span.isRecording()) return;
    span.setAttributes(this.#attributes);
    span.setAttribute(ATTR_URL_FULL, urlOf(request));
    if (tries > 0) span.setAttribute(ATTR_HTTP_REQUEST_RESEND_COUNT, tries);
  }

  setStatus(status: number): void {
    this.#status = status;
  }

  end(failure?: AttemptFailure): void {
    if (this.#ended) return;
    this.#ended = true;
    this.failure = failure;
    const status = this.#status;
    const error = failure ?? (status !== undefined && status >= 400 ? String(status) : undefined);
    const outcome = {
      ...(status !== undefined && { [ATTR_HTTP_RESPONSE_STATUS_CODE]: status }),
      ...(error !== undefined && { [ATTR_ERROR_TYPE]: error }),
    };
    const endedMs = performance.now();
    const seconds = (endedMs - this.#startMs) / 1_000;
    this.#instruments.forwarded.record(seconds, { ...this.#attributes, ...outcome });
    if (!this.#span.isRecording()) return;
    this.#span.setAttributes(outcome);
    if (error !== undefined && error !== GONE_ERROR) {
      this.#span.setStatus({ code: SpanStatusCode.ERROR });
    }
    this.#span.end(this.#originMs + endedMs);
  }
}

function urlOf({ origin, target, foreignKeys }: ForwardedRequest): string {
  const question = target.indexOf("?");
  const path = question === -1 ? target : target.slice(0, question);
  return new URL(origin).origin + maskKeysInPath(path, foreignKeys);
}

/** Half of the most origins that are cached: upstreams are few, but hosts of clients are not. */
const SERVERS_HALF_MAX = 500;
const servers = new AgingMap<Attributes>(SERVERS_HALF_MAX);

/** The address and the port of an origin; empty if it is not valid. */
function serverOf(origin: string): Attributes {
  let server = servers.get(origin);
  if (server === undefined) {
    const url = URL.parse(origin);
    server = url === null ? {} : addressOf(url);
    servers.set(origin, server);
  }
  return server;
}

function addressOf(url: URL): Attributes {
  const { host, port } = hostPortOf(url);
  return { [ATTR_SERVER_ADDRESS]: host, [ATTR_SERVER_PORT]: port };
}
