import type { Socket } from "node:net";
import type { Refusal } from "../../core/refusal.ts";
import type { IncomingRequest } from "../../http1/server/incoming-request.ts";
import type { ResponseListener, ResponseWriter } from "../../http1/server/response-writer.ts";
import type { ServerConnection } from "../../http1/server/server-connection.ts";
import type { ConcurrencyLimiter } from "../client/concurrency-limiter.ts";
import { ExchangeRecord, type RequestContext } from "./exchange-record.ts";

/**
 * The life of a request. It moves down this list. Only two steps lead back: a decision to
 * `judging`, and a discarded response head to `forwarding`. A refusal, a cut or a client that
 * leaves moves it from any state to `over`.
 */
type ExchangeState =
  /** Its head, its key and its route are judged. Nothing is waited for. */
  | "judging"
  /** The store is asked. */
  | "deciding"
  /** It is on its way to an upstream, or waits there for a response. */
  | "forwarding"
  /** The upstream's head has been sent, and its body follows. */
  | "answering"
  /** The upstream's 101 has been sent. */
  | "tunnelling"
  /** The response has ended, or the client is gone. */
  | "over";

/** The request, its response and the connection that both belong to. */
type ExchangeParts = {
  readonly request: IncomingRequest;
  readonly response: ResponseWriter;
  readonly connection: ServerConnection;
};

/**
 * One request and its response, from the head to the last byte: its record, its state and the
 * current wait. The access log entry is written from it. Only the methods below and those of the
 * record change it (test/tidy.test.ts checks that).
 */
export class Exchange extends ExchangeRecord implements ResponseListener {
  readonly response: ResponseWriter;
  readonly connection: ServerConnection;
  readonly socket: Socket;
  readonly #onEnd: (exchange: Exchange) => void;

  state: ExchangeState = "judging";
  waiting: WaitKind = "nothing";
  /** When the current wait began or last made progress, on the clock of the arrival. */
  progressMs: number;
  /** The forward in progress. It is told of waits that take too long and of malformed requests. */
  forwarding: ForwardHandler | undefined;
  /** The origin that the request was last sent to, or tried at. */
  upstream: string | undefined;
  forwards: 0 | 1 | 2 = 0;
  /** Bytes of the upstream's body so far. */
  bodyBytes = 0;
  /** Its index in the list of the listener's timeouts; -1 while it is not in the list. */
  timeoutsPlace = -1;
  #occupied: { readonly concurrency: ConcurrencyLimiter; readonly account: string } | undefined;
  #deciding: Promise<unknown> | undefined;
  #askedMs = 0;
  #forwardedMs: number | undefined;
  /** How long the request waited for the store, and for an upstream if it was to go to one. */
  storeMs = 0;
  upstreamMs: number | undefined;
  /** Bytes of an ended response that the client had not taken at the last check. */
  #unread = -1;
  #stalled = false;

  /** `onEnd` is called when the response has ended, or when its client is gone. */
  constructor(
    { request, response, connection }: ExchangeParts,
    arrival: RequestContext,
    onEnd: (exchange: Exchange) => void,
  ) {
    super(request, arrival);
    this.response = response;
    this.connection = connection;
    this.socket = connection.socket;
    this.progressMs = arrival.startedMs;
    this.#onEnd = onEnd;
    if (arrival.closesConnection) response.closesConnection = true;
    response.listener = this;
  }

  onDrain(): void {
    this.forwarding?.drained();
  }

  onClose(): void {
    this.#onEnd(this);
  }

  get isOver(): boolean {
    return this.state === "over";
  }

  /**
   * The status for the access log entry. 499, as in other servers' logs: the client left
   * before a response began, or stopped reading it.
   */
  get status(): number {
    if (this.answer?.isTunnel) return 101;
    if (this.#stalled || !this.response.headSent) return 499;
    return this.response.status;
  }

  // Deciding.

  /**
   * If the client disconnects while we wait for the store, its log line is written after the
   * decision, so that it shows whether the request was charged (docs/reference/http.md#request-line).
   */
  awaitDecision(deciding: Promise<unknown>, nowMs: number): void {
    this.state = "deciding";
    this.#askedMs = nowMs;
    this.#deciding = deciding;
  }

  /** The decision has arrived, from the store or from the outage handler. */
  endDecision(nowMs: number): void {
    this.storeMs += nowMs - this.#askedMs;
    this.#deciding = undefined;
    if (this.state === "deciding") this.state = "judging";
  }

  /** The request waited for the store without a decision. */
  addStoreTime(ms: number): void {
    this.storeMs += ms;
  }

  /**
   * Counts the request among those of its account in progress, until it ends. Returns false if
   * there are `max` already.
   */
  acquireConcurrency(concurrency: ConcurrencyLimiter, account: string, max: number): boolean {
    if (!concurrency.acquire(account, max)) return false;
    this.#occupied = { concurrency, account };
    return true;
  }

  /** Whether the client has sent nothing ahead behind this request. */
  get isLast(): boolean {
    return !this.connection.isFollowed;
  }

  /** Serves nothing more on this connection. */
  closeAfter(): void {
    this.response.closesConnection = true;
  }

  // Forwarding and responding.

  /** The forward handles the request from here on, until `settle`. */
  forward(forwarding: ForwardHandler): void {
    this.state = "forwarding";
    this.forwarding = forwarding;
  }

  /** The request is on its way to this upstream, or waits for a connection to it. */
  tryAt(origin: string): void {
    this.upstream = origin;
  }

  /**
   * The first byte of the request is sent to an upstream: at most twice
   * (docs/reference/http.md#law).
   */
  countForward(): void {
    this.forwards = this.forwards === 0 ? 1 : 2;
  }

  /** The upstream's head is good and is being sent. */
  startResponse(promisedBytes: number, nowMs: number): void {
    this.state = "answering";
    this.answer = { isTunnel: false, promisedBytes };
    this.wait("download", nowMs);
  }

  /** All of the upstream's answer has arrived. */
  completeAnswer(): void {
    this.isAnswerWhole = true;
  }

  /** The upstream's head turned out to be useless before any of it was sent. */
  revertToForwarding(): void {
    if (this.socket.destroyed || !this.response.discardHead()) return;
    this.state = "forwarding";
    this.answer = undefined;
  }

  /** The upstream has agreed to a WebSocket. */
  startTunnel(nowMs: number): void {
    this.state = "tunnelling";
    this.answer = { isTunnel: true, promisedBytes: -1 };
    this.wait("tunnel", nowMs);
  }

  /** The tunnel is over, although its client may not have closed the connection yet. */
  endTunnel(): void {
    this.response.closed();
  }

  wait(waiting: WaitKind, nowMs: number): void {
    if (waiting === "connection") this.#forwardedMs ??= nowMs;
    this.waiting = waiting;
    this.progressMs = nowMs;
  }

  progress(nowMs: number): void {
    this.progressMs = nowMs;
  }

  /** Counts bytes that arrived of the upstream's body. */
  addBodyBytes(bytes: number, nowMs: number): void {
    this.bodyBytes += bytes;
    this.progressMs = nowMs;
  }

  /** The rest of the request is malformed. Notifies the forward in progress. */
  onRequestError(refusal: Refusal): void {
    this.requestError ??= refusal;
    this.forwarding?.onRequestError?.(refusal);
  }

  /** The listener's timeouts keep the exchange at this index; -1 if they do not. */
  setTimeoutSlot(place: number): void {
    this.timeoutsPlace = place;
  }

  // Ending.

  /** The forward has finished with the request, successfully or not. */
  settle(nowMs: number): void {
    if (this.forwarding !== undefined) this.upstreamMs = nowMs - (this.#forwardedMs ?? nowMs);
    this.forwarding = undefined;
    this.waiting = "nothing";
  }

  /**
   * Cuts a client that has taken no byte of a completely written response for `idleMs`. Node has no
   * limit for that.
   */
  cutSlowReader(idleMs: number, nowMs: number): void {
    const unread = this.socket.writableLength;
    if (unread !== this.#unread) {
      this.#unread = unread;
      this.progressMs = nowMs;
    } else if (nowMs - this.progressMs > idleMs) {
      this.cutStalledReader();
    }
  }

  /** Cuts a client that stopped reading (docs/reference/edge.md#slow-readers). */
  cutStalledReader(): void {
    this.#stalled = true;
    this.cut("the client stopped reading");
  }

  /** Ends the connection so that a client that has a part of the response does not take it for whole. */
  cut(why: string): void {
    this.setReason(why);
    if (this.response.headWritten) this.response.cut();
    else this.socket.destroy();
  }

  /**
   * The response has ended, or the client is gone. Calls `tell` once the log entry can be written:
   * at once, or after a pending decision.
   */
  end(tell: () => void): void {
    this.state = "over";
    this.#occupied?.concurrency.release(this.#occupied.account);
    if (!this.response.finished) {
      this.forwarding?.onClientGone();
      if (this.isAnswerWhole) this.setReason("the client went away");
    }
    if (this.#deciding === undefined) tell();
    else this.#deciding.then(tell, tell);
  }
}

/**
 * The event that the gateway waits for. Each wait has its own limit
 * (docs/reference/edge.md#timeouts). `reader`: the client must take the bytes that are ready for
 * it.
 */
export type WaitKind =
  | "nothing"
  | "connection"
  | "upload"
  | "answer"
  | "download"
  | "reader"
  | "tunnel";

export type ForwardHandler = {
  /** Called when the current wait took longer than its limit. */
  onTimeout(): void;
  /**
   * Called when the client's bytes turn out to be malformed after the request was forwarded. It is
   * absent for an upgrade, because nothing after its head is read as a request.
   */
  onRequestError?(refusal: Refusal): void;
  /** Called when the client is gone. */
  onClientGone(): void;
  /** Called when the client takes more bytes again. */
  drained(): void;
  /** Called ten times a second before the wait is measured, for changes that have no event. */
  onTick?(nowMs: number): void;
};
