import { clientResponseFields } from "../../core/http/forwarded-fields.ts";
import { gatewayFields, replacedFields } from "../../core/http/gateway-fields.ts";
import { hasBody } from "../../core/http/head.ts";
import { isUpstreamFault, type Refusal } from "../../core/refusal.ts";
import type { ClientConnection, ResponseHandler } from "../../http1/client/client-connection.ts";
import type { RequestFailure } from "../../http1/client/outgoing-request.ts";
import type { ResponseHead } from "../../http1/client/response-parser.ts";
import type { ParsedResponseHead } from "../../http1/parse/response-head-parser.ts";
import type { UpstreamSpan } from "../../telemetry/tracing/tracing.ts";
import type { ForwardHandler } from "../exchange/exchange.ts";
import { meterCharges, readAnswerHead } from "../exchange/metered-answer.ts";
import { warnOfFilesShortage } from "../runtime/files-shortage.ts";
import { closeIfDraining, failExchange } from "../stages/reply.ts";
import { settleMeters } from "../stages/settle.ts";
import type { Upstream, UpstreamConnection } from "../upstreams/upstream.ts";
import { RequestBody } from "./request-body.ts";
import { ResponseBody } from "./response-body.ts";
import { RetryPolicy } from "./retry-policy.ts";
import { type ForwardContext, startUpstreamSpan, upstreamRequest } from "./upstream-request.ts";
import {
  EarlyHints,
  endReason,
  failureRefusal,
  validateFieldCount,
  validateResponse,
} from "./upstream-response.ts";

/** A body that brought nothing for so long may have stalled. */
const FLOWING_MS = 1_000;
const NEVER_SENT =
  "No connection to the upstream service became free in time: the request was not sent to it";

/** Sends the request to an upstream and its response to the client, both as they arrive. */
export function forward(context: ForwardContext): void {
  new Forward(context).start();
}

class Forward implements ForwardHandler, ResponseHandler {
  readonly #context: ForwardContext;
  readonly #retryPolicy: RetryPolicy;
  #hints: EarlyHints | undefined;
  #connection: UpstreamConnection | undefined;
  /** Whether the time to wait for a connection was over when this one came. */
  #isConnectionLate = false;
  #span: UpstreamSpan | undefined;
  #body: RequestBody | undefined;
  /** Whether the client waits for a 100 before it sends the body. */
  #owesContinue = false;
  #responseBody: ResponseBody | undefined;
  #stopWaiting: () => void = nothing;

  constructor(context: ForwardContext) {
    const { service, gateway, head } = context;
    this.#context = context;
    this.#retryPolicy = new RetryPolicy(
      head.method,
      service.limits.connectRetryMs,
      gateway.elapsed,
    );
  }

  start(): void {
    const { gateway, exchange, service, head } = this.#context;
    exchange.forward(this);
    if (hasBody(head)) {
      this.#body = new RequestBody(exchange, service.limits.bodyBytes, gateway.elapsed);
      this.#owesContinue = head.expectsContinue;
    }
    this.#try();
  }

  /** Makes one attempt. `onFailure` decides whether there is another one. */
  #try(): void {
    const { gateway, exchange } = this.#context;
    exchange.wait("connection", gateway.elapsed());
    this.#take();
  }

  #take(): void {
    const { caller, service } = this.#context;
    this.#stopWaiting = service.upstreams.take(
      caller.account,
      (connection) => this.#send(connection),
      this.#retryPolicy,
    );
  }

  #send(connection: UpstreamConnection): void {
    const { gateway, exchange, service } = this.#context;
    const waitedMs = gateway.elapsed() - exchange.progressMs;
    this.#connection = connection;
    this.#isConnectionLate = waitedMs > service.limits.responseTimeoutMs;
    exchange.tryAt(connection.upstream.origin);
    this.#span = startUpstreamSpan(this.#context, connection.upstream);
    const request = upstreamRequest(this.#context, connection.upstream, this.#span);
    try {
      connection.send(request, this);
    } catch {
      this.#fail({ code: "bad_request", why: "a field value" });
    }
  }

  // Events of the connection, in order.

  onStart(connection: ClientConnection): void {
    const { gateway, exchange } = this.#context;
    if (this.#body === undefined) return;
    if (this.#owesContinue) exchange.response.writeContinue();
    this.#owesContinue = false;
    exchange.wait("upload", gateway.elapsed());
    this.#body.sendTo(connection);
  }

  onSending(): void {
    this.#context.exchange.countForward();
  }

  onDrain(): void {
    this.#context.exchange.progress(this.#context.gateway.elapsed());
    this.#body?.drained();
  }

  onSent(): void {
    const { gateway, exchange } = this.#context;
    // A response that came early is being read already.
    if (exchange.state === "forwarding") exchange.wait("answer", gateway.elapsed());
  }

  onInterim({ status, rawHeaders }: ParsedResponseHead): void {
    const wrong = validateFieldCount(rawHeaders);
    if (wrong !== undefined) {
      this.#fail({ code: "upstream_invalid", why: wrong });
      return;
    }
    this.#hints ??= new EarlyHints();
    this.#hints.pass(this.#context, status, rawHeaders);
  }

  onHead(head: ResponseHead): void {
    this.#span?.setStatus(head.status);
    const wrong = validateResponse(head.status, head.rawHeaders);
    if (wrong === undefined) {
      const { upstream, account } = this.#connection as UpstreamConnection;
      this.#context.service.upstreams.health.answered(upstream, account, head.status);
      this.#sendHead(head);
    } else this.#fail({ code: "upstream_invalid", why: wrong });
  }

  onData(piece: Buffer): void {
    const { gateway, exchange } = this.#context;
    exchange.addBodyBytes(piece.length, gateway.elapsed());
    this.#responseBody?.add(piece);
  }

  onReadEnd(): void {
    const { gateway, exchange } = this.#context;
    // A body that is available is sent with the head. A later body must not delay the head.
    const body = this.#responseBody;
    if (body === undefined || body.isEmpty) exchange.response.flush();
    if (body?.write() === false) {
      this.#connection?.pause();
      exchange.wait("reader", gateway.elapsed());
    } else if (body?.endTurn()) this.#yieldTurn();
  }

  /** Leaves what has arrived to the next turn of the event loop. */
  #yieldTurn(): void {
    const { exchange } = this.#context;
    const connection = this.#connection;
    connection?.pause();
    setImmediate(() => {
      if (connection === this.#connection && exchange.waiting !== "reader") connection?.resume();
    });
  }

  onEnd(): void {
    const { service, exchange, gateway } = this.#context;
    const body = this.#responseBody as ResponseBody;
    body.readLast();
    exchange.completeAnswer();
    const isMetered = exchange.meters.length > 0;
    if (isMetered) settleMeters(gateway, exchange, meterCharges(exchange));
    else body.write();
    this.#span?.end();
    service.upstreams.health.delivered((this.#connection as UpstreamConnection).upstream);
    this.#body?.stop();
    exchange.settle(gateway.elapsed());
    this.#releaseConnection();
    // The settlement leaves ahead of the bytes by which the client knows that the answer is whole.
    if (isMetered) setImmediate(() => body.endMetered());
    else body.end();
  }

  onFailure(failure: RequestFailure): void {
    const { service, exchange } = this.#context;
    const { upstream } = this.#connection as UpstreamConnection;
    this.#responseBody?.write();
    const again = this.#retryPolicy.nextAttempt(service.upstreams, upstream, failure);
    const refusal = failureRefusal(failure);
    this.#span?.end(refusal.code);
    if (again === "short") {
      this.#waitForFile(upstream);
      return;
    }
    // A connection that died of old age, or while its client was not reading, is no sign of a bad
    // upstream.
    const isBackends = isUpstreamFault(refusal.code) && again !== "aged";
    if (isBackends && exchange.waiting !== "reader") this.#blame(upstream, refusal);
    this.#releaseConnection();
    if (again === undefined) this.#end(refusal);
    else if (typeof again === "string") this.#try();
    else this.#tryAfter(again.pauseMs);
  }

  /** Waits as it does when no connection is free. It is one wait, so its time goes on. */
  #waitForFile(upstream: Upstream): void {
    const { gateway, service } = this.#context;
    warnOfFilesShortage(gateway);
    service.upstreams.short(upstream);
    this.#releaseConnection();
    this.#take();
  }

  #tryAfter(pauseMs: number): void {
    const timer = setTimeout(() => this.#try(), pauseMs);
    this.#stopWaiting = () => clearTimeout(timer);
  }

  // Events of the gateway: a wait took too long, or the client's request is malformed, or the
  // client is gone.

  onTimeout(): void {
    const { exchange } = this.#context;
    const { waiting } = exchange;
    // Also behind an early head: a backend that reads the body may have nothing more to say yet.
    const stalled =
      (waiting === "upload" || waiting === "download") &&
      !exchange.request.complete &&
      this.#body?.held === false;
    if (waiting === "reader") exchange.cutStalledReader();
    else if (stalled) this.#fail({ code: "request_timeout", why: "the body stalled" });
    else {
      const hadNone = this.#connection === undefined || this.#hadNoTime;
      const isUnsent = hadNone && exchange.forwards === 0;
      const message = isUnsent ? { message: NEVER_SENT } : {};
      this.#fail({ code: "upstream_timeout", why: `waited too long for: ${waiting}`, ...message });
    }
  }

  drained(): void {
    const { gateway, exchange } = this.#context;
    if (exchange.waiting !== "reader") return;
    exchange.wait("download", gateway.elapsed());
    this.#connection?.resume();
  }

  onRequestError(refusal: Refusal): void {
    this.#fail(refusal);
  }

  onClientGone(): void {
    this.#span?.end("client_gone");
    const { exchange, service, gateway } = this.#context;
    // Streams have no other end: of one that has just brought something, this says that it went well.
    // A body that stalled has no client that stays: it must not speak for its backend.
    const isFlowing =
      exchange.bodyBytes > 0 && gateway.elapsed() - exchange.progressMs < FLOWING_MS;
    if (isFlowing && this.#connection !== undefined) {
      service.upstreams.health.delivered(this.#connection.upstream);
    }
    this.#fail({ code: "request_timeout", why: "the client went away" });
  }

  /** Ends both sides, for a reason of the gateway's own. */
  #fail(refusal: Refusal): void {
    const connection = this.#connection;
    if (connection === undefined) this.#stopWaiting();
    else {
      connection.abort();
      this.#body?.stop();
      const isBackends = isUpstreamFault(refusal.code) && !this.#hadNoTime;
      if (isBackends) this.#blame(connection.upstream, refusal);
      this.#releaseConnection();
    }
    this.#end(refusal);
  }

  /** Whether it was given a connection by the sweep that ended its wait for one, at the earliest. */
  get #hadNoTime(): boolean {
    return this.#isConnectionLate && this.#context.exchange.waiting === "connection";
  }

  #blame(upstream: Upstream, refusal: Refusal): void {
    const { service, exchange } = this.#context;
    service.upstreams.health.failed(upstream, refusal, exchange.state === "answering");
  }

  /** Ends the client's side. This object gets no more calls once the exchange is settled. */
  #end(refusal: Refusal): void {
    this.#span?.end(refusal.code);
    this.#body?.stop();
    const { gateway, exchange } = this.#context;
    exchange.revertToForwarding();
    failExchange(gateway, exchange, { ...refusal, why: endReason(refusal, exchange) });
  }

  /** The next request may get the connection at once, so nothing here may refer to it any more. */
  #releaseConnection(): void {
    const connection = this.#connection;
    this.#connection = undefined;
    this.#body?.leave();
    if (connection !== undefined) this.#context.service.upstreams.release(connection);
  }

  /**
   * Sends the upstream's final head, with the gateway's fields in place of the upstream's
   * (docs/reference/edge.md#response-fields).
   */
  #sendHead({ status, rawHeaders, framing }: ResponseHead): void {
    const { gateway, exchange, service } = this.#context;
    const { response, request } = exchange;
    const answerReader = readAnswerHead(
      exchange,
      { status, rawHeaders },
      service.limits.meteredBytes,
    );
    if (!request.complete) exchange.closeAfter();
    closeIfDraining(gateway, exchange);
    const theirs = clientResponseFields(rawHeaders, { replaced: replacedFields(exchange), status });
    const promisedBytes = typeof framing === "number" ? framing : -1;
    exchange.startResponse(promisedBytes, gateway.elapsed());
    this.#responseBody = new ResponseBody(response, promisedBytes, answerReader);
    response.writeHead(status, gatewayFields(exchange, theirs));
  }
}

function nothing(): void {}
