import type { Dispatcher } from "undici";
import { responseFields } from "../../core/http/fields.ts";
import { hasBody } from "../../core/http/head.ts";
import { ownFields, replacedFields } from "../../core/http/own-fields.ts";
import type { Refusal } from "../../core/refusal.ts";
import type { Forwarding } from "../exchange/exchange.ts";
import { endTogether } from "../node/end-together.ts";
import { countPassedBytes } from "../node/free-buffers.ts";
import { lingerOnClose } from "../node/linger.ts";
import { failExchange } from "../stages/reply.ts";
import type { BackendConnection } from "../upstreams/backend-connection.ts";
import { type Admitted, outgoingFields } from "./backend-request.ts";
import * as answered from "./backend-response.ts";
import { EarlyHints } from "./backend-response.ts";
import { RequestBody } from "./request-body.ts";
import { Attempts } from "./retry.ts";

/** Sends the request to a backend and its response to the client, both as they come. */
export function forward(admitted: Admitted): void {
  new Forward(admitted).start();
}

class Forward implements Forwarding, Dispatcher.DispatchHandler {
  readonly #admitted: Admitted;
  readonly #attempts = new Attempts();
  readonly #hints = new EarlyHints();
  #connection: BackendConnection | undefined;
  #controller: Dispatcher.DispatchController | undefined;
  #body: RequestBody | undefined;
  #stopWaiting: () => void = () => {};
  #reusedConnection = false;
  /** Set with the first byte that goes out on this connection, and with the first that comes back. */
  #sent = false;
  #answering = false;
  /** A small body that comes in one piece goes out in one write, with its head. */
  #wholeBytes = -1;
  #whole: Buffer | undefined;
  #listensToDrain = false;
  /** Why we abort: the library reports back only that we did. */
  #failure: Refusal | undefined;
  /** The client's side is settled: answered, refused, cut or gone. */
  #settled = false;

  constructor(admitted: Admitted) {
    this.#admitted = admitted;
  }

  start(): void {
    const { exchange, backend, head } = this.#admitted;
    exchange.forward(this);
    if (hasBody(head)) {
      this.#body = new RequestBody(exchange, backend.limits.bodyBytes);
      if (exchange.arrival.asksToContinue) exchange.response.writeContinue();
    }
    this.#takeConnection();
  }

  #takeConnection(): void {
    const { gateway, exchange, caller, backend } = this.#admitted;
    exchange.wait("connection", gateway.elapsed());
    // Drop the previous try's controller. `#fail` would abort that finished try, and this one would
    // wait in the queue for ever.
    this.#controller = undefined;
    this.#stopWaiting = backend.upstreams.take(
      caller.account,
      (connection) => this.#dispatch(connection),
      this.#attempts,
    );
  }

  #dispatch(connection: BackendConnection): void {
    this.#connection = connection;
    const { exchange, head, target } = this.#admitted;
    this.#sent = false;
    exchange.tryAt(connection.upstream.origin);
    const headers = outgoingFields(this.#admitted);
    const method = head.method as Dispatcher.HttpMethod;
    connection.send({ path: target, method, headers, body: this.#body ?? null }, this);
  }

  // Events of the client library, in order.

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.#reusedConnection = this.#connection?.reused === true;
    const { gateway, exchange } = this.#admitted;
    if (this.#settled) controller.abort(new Error("the exchange is over"));
    else if (this.#body !== undefined) exchange.wait("upload", gateway.elapsed());
  }

  onBodySent(): void {
    this.#countForward();
    this.#admitted.exchange.progress(this.#admitted.gateway.elapsed());
  }

  onRequestSent(): void {
    this.#countForward();
    const { gateway, exchange } = this.#admitted;
    if (!this.#answering) exchange.wait("answer", gateway.elapsed());
  }

  onResponseStarted(): void {
    this.#answering = true;
  }

  onResponseStart(controller: Dispatcher.DispatchController, status: number): void {
    const raw = answered.textOf(controller.rawHeaders);
    const wrong = answered.judgeResponse(status, raw);
    if (status < 200) this.#hints.pass(this.#admitted, status, raw);
    else if (wrong === undefined) this.#sendHead(status, raw);
    else this.#fail({ code: "upstream_invalid", why: wrong });
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    const { gateway, exchange, head } = this.#admitted;
    exchange.took(chunk.length, gateway.elapsed());
    if (head.method === "HEAD") return;
    if (chunk.length === this.#wholeBytes) {
      this.#whole = chunk;
      return;
    }
    countPassedBytes(chunk.length);
    if (exchange.response.write(chunk)) return;
    controller.pause();
    exchange.wait("reader", gateway.elapsed());
    if (this.#listensToDrain) return;
    this.#listensToDrain = true;
    exchange.response.on("drain", () => {
      if (!this.#settled) exchange.wait("download", gateway.elapsed());
      controller.resume();
    });
  }

  onResponseEnd(): void {
    if (this.#connection !== undefined) {
      this.#connection.answered += 1;
      this.#admitted.backend.upstreams.succeeded(this.#connection);
    }
    this.#settle();
    this.#releaseConnection();
    endTogether(this.#admitted.exchange.response, this.#whole);
  }

  onResponseError(_controller: unknown, error: Error): void {
    const again = this.#again(error);
    const started = this.#controller !== undefined;
    const failure = this.#failure ?? answered.refusalFor(error, started, this.#answering);
    // A connection that died of old age, or behind a client that reads nothing, says nothing of the
    // backend.
    const reading = this.#admitted.exchange.waiting !== "reader";
    const isBackends = failure.code.startsWith("upstream") && again !== "aged" && reading;
    if (this.#connection !== undefined && isBackends)
      this.#admitted.backend.upstreams.failed(this.#connection);
    this.#releaseConnection();
    if (again === undefined) this.#end(failure);
    else this.#takeConnection();
  }

  // Events of the gateway: a wait that took too long, a client that is wrong or gone.

  late(): void {
    const { exchange } = this.#admitted;
    const { waiting } = exchange;
    if (waiting === "reader") {
      exchange.stall();
      return;
    }
    const stalled = waiting === "upload" && this.#body?.held === false;
    if (stalled) this.#fail({ code: "request_timeout", why: "the body stalled" });
    else this.#fail({ code: "upstream_timeout", why: `waited too long for: ${waiting}` });
  }

  broken(refusal: Refusal): void {
    this.#fail(refusal);
  }

  gone(): void {
    this.#fail({ code: "request_timeout", why: "the client went away" });
  }

  /** Ends both sides. The library answers an abort with onResponseError, at once. */
  #fail(failure: Refusal): void {
    this.#failure = failure;
    if (this.#controller !== undefined) {
      this.#controller.abort(new Error(failure.code));
    } else {
      this.#stopWaiting();
      this.#end(failure);
    }
  }

  #end(failure: Refusal): void {
    if (this.#settled) return;
    this.#settle();
    const { gateway, exchange } = this.#admitted;
    failExchange(gateway, exchange, { ...failure, why: answered.whyEnded(failure, exchange) });
  }

  #settle(): void {
    this.#settled = true;
    this.#admitted.exchange.settle();
    this.#body?.destroy();
  }

  #releaseConnection(): void {
    const connection = this.#connection;
    this.#connection = undefined;
    if (connection !== undefined) this.#admitted.backend.upstreams.release(connection);
  }

  #again(error: Error) {
    const connection = this.#connection;
    const { backend, head } = this.#admitted;
    if (connection === undefined || this.#settled || this.#failure !== undefined) return;
    return this.#attempts.again(backend.upstreams, {
      error,
      connection,
      method: head.method,
      started: this.#controller !== undefined,
      reused: this.#reusedConnection,
      answering: this.#answering,
    });
  }

  #countForward(): void {
    if (!this.#sent) this.#admitted.exchange.countForward();
    this.#sent = true;
  }

  /**
   * Sends the final head of the backend with our fields in place of its own
   * (docs/reference/edge.md#response-fields).
   */
  #sendHead(status: number, raw: readonly string[]): void {
    const { gateway, exchange, served } = this.#admitted;
    const { response, request } = exchange;
    if (gateway.draining !== "no" || !request.complete) exchange.closeAfter();
    const theirs = responseFields(raw, { replaced: replacedFields(exchange), status });
    if (exchange.last) lingerOnClose(exchange.socket, request, served.limits.bodyBytes);
    exchange.answer(answered.promisedLength(raw), gateway.elapsed());
    if (answered.isSmall(exchange.promisedBytes)) this.#wholeBytes = exchange.promisedBytes;
    response.writeHead(status, [...theirs, ...ownFields(exchange)]);
    // A body at hand takes the head along; one yet to come must not hold it back. flushHeaders()
    // would write the bytes of fields as UTF-8.
    queueMicrotask(() => {
      if (this.#whole === undefined && !response.writableEnded) response.write("", "latin1");
    });
  }
}
