import type { Socket } from "node:net";
import type { Refusal } from "../../core/refusal.ts";
import type { ResponseListener, ResponseWriter } from "../../http1/server/response-writer.ts";
import type { ServerConnection } from "../../http1/server/server-connection.ts";
import type { ConcurrencyLimiter } from "../client/concurrency-limiter.ts";
import { ExchangeRecord } from "./exchange-record.ts";
import type { ExchangeParts, RequestContext } from "./open-tunnel.ts";

/**
 * The life of a request. It goes down this list and never back; a refusal, a cut or a client that
 * leaves goes from any of them to `over`.
 */
export type ExchangeState =
  /** Its head, its key and its route are judged; nothing is waited for. */
  | "judging"
  /** The store is asked. */
  | "deciding"
  /** It is on its way to a backend, or waits there for an answer. */
  | "forwarding"
  /** The backend's head has gone out, and its body follows. */
  | "answering"
  /** The backend's 101 has gone out. */
  | "tunnelling"
  /** The response has ended, or nobody is there to get one any more. */
  | "over";

/**
 * One request and its response, from the head to the last byte: its record, its state and the present
 * wait. The log line is written from it. Only the methods below and those of the record change it
 * (test/tidy.test.ts sees to that).
 */
export class Exchange extends ExchangeRecord implements ResponseListener {
  readonly response: ResponseWriter;
  readonly connection: ServerConnection;
  readonly socket: Socket;
  readonly #onEnd: (exchange: Exchange) => void;

  stage: ExchangeState = "judging";
  waiting: WaitKind = "nothing";
  /** On the clock of the arrival: when the present wait began, or last made progress. */
  progressMs: number;
  /** The forward in progress, which ends waits that take too long and requests that break. */
  forwarding: ForwardHandler | undefined;
  /** The origin that it was last sent to, or tried at. */
  upstream: string | undefined;
  forwards: 0 | 1 | 2 = 0;
  /** Bytes of the upstream's body so far. */
  bodyBytes = 0;
  /** Its place in the list of the listener's timeouts; -1 while it is not in it. */
  timeoutsPlace = -1;
  #occupied: { readonly concurrency: ConcurrencyLimiter; readonly account: string } | undefined;
  #deciding: Promise<unknown> | undefined;
  /** Bytes of an ended response that the client had not taken at the last look. */
  #unread = -1;
  #stalled = false;

  /** `onEnd` is called when the response has ended, or its client is gone. */
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
    return this.stage === "over";
  }

  /** The status for the line. 499, as others log it: there was nobody to take an answer, or all of it. */
  get status(): number {
    if (this.answer?.isTunnel) return 101;
    if (this.#stalled || !this.response.headWritten) return 499;
    return this.response.status;
  }

  // Decided.

  /**
   * If the client disconnects while we wait for the store, its log line is written after the
   * decision, so that it shows whether the request was charged (docs/reference/http.md#request-line).
   */
  awaitDecision(deciding: Promise<unknown>): void {
    this.stage = "deciding";
    this.#deciding = deciding;
  }

  /** The store has answered, or what stands in for it. */
  endDecision(): void {
    this.#deciding = undefined;
    if (this.stage === "deciding") this.stage = "judging";
  }

  /**
   * Counts the request among those of its account that are under way, until it ends; false where
   * there are `max` already.
   */
  acquireConcurrency(concurrency: ConcurrencyLimiter, account: string, max: number): boolean {
    if (!concurrency.acquire(account, max)) return false;
    this.#occupied = { concurrency, account };
    return true;
  }

  /** Nothing more is served on this connection. */
  closeAfter(): void {
    this.response.closesConnection = true;
  }

  // Forwarded and answered.

  /** A forwarding deals with the request from here on, until it is settled. */
  forward(forwarding: ForwardHandler): void {
    this.stage = "forwarding";
    this.forwarding = forwarding;
  }

  /** The request is on its way to this backend, or waits for a connection to it. */
  tryAt(origin: string): void {
    this.upstream = origin;
  }

  /** The first byte of the request goes out to a backend: at most twice (docs/reference/http.md#law). */
  countForward(): void {
    this.forwards = this.forwards === 0 ? 1 : 2;
  }

  /** The backend's head is good and goes out. */
  startResponse(promisedBytes: number, nowMs: number): void {
    this.stage = "answering";
    this.answer = { isTunnel: false, promisedBytes };
    this.wait("download", nowMs);
  }

  /** The backend's head turns out to be of no use, before any of it has gone out. */
  revertToForwarding(): void {
    if (this.socket.destroyed || !this.response.discardHead()) return;
    this.stage = "forwarding";
    this.answer = undefined;
  }

  /** The backend has agreed to a WebSocket. */
  startTunnel(nowMs: number): void {
    this.stage = "tunnelling";
    this.answer = { isTunnel: true, promisedBytes: -1 };
    this.wait("tunnel", nowMs);
  }

  wait(waiting: WaitKind, nowMs: number): void {
    this.waiting = waiting;
    this.progressMs = nowMs;
  }

  progress(nowMs: number): void {
    this.progressMs = nowMs;
  }

  /** So many bytes of the backend's body came. */
  addBodyBytes(bytes: number, nowMs: number): void {
    this.bodyBytes += bytes;
    this.progressMs = nowMs;
  }

  /** The rest of the request cannot be believed: tells the forwarding under way. */
  onRequestError(refusal: Refusal): void {
    this.broken ??= refusal;
    this.forwarding?.onRequestError?.(refusal);
  }

  /** The listener's timeouts keep it at this place of their list; -1 where they do not. */
  setTimeoutSlot(place: number): void {
    this.timeoutsPlace = place;
  }

  // Ended.

  /** The forwarding is done with the request, however it went. */
  settle(): void {
    this.forwarding = undefined;
    this.waiting = "nothing";
  }

  /**
   * Cuts, after a response is all written, a client that has taken no byte of it for `idleMs`. Node
   * has no limit for that.
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

  /** The client stopped reading: it is cut (docs/reference/edge.md#slow-readers). */
  cutStalledReader(): void {
    this.#stalled = true;
    this.explain("the client stopped reading");
    this.socket.destroy();
  }

  /**
   * The response has ended, or the client is gone. Calls `tell` once its line can be written: at
   * once, or after a decision that is under way.
   */
  end(tell: () => void): void {
    this.stage = "over";
    this.#occupied?.concurrency.release(this.#occupied.account);
    if (!this.response.finished) this.forwarding?.onClientGone();
    if (this.#deciding === undefined) tell();
    else this.#deciding.then(tell, tell);
  }
}

/**
 * The thing that the gateway waits for. Each wait has a limit of its own
 * (docs/reference/edge.md#timeouts). `reader`: for the client to take what has come for it.
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
  /** The present wait took longer than its limit. */
  onTimeout(): void;
  /**
   * The client's bytes turned out to be wrong after the request was forwarded. Nothing after the
   * head of an upgrade is read as a request, so nothing of that can.
   */
  onRequestError?(refusal: Refusal): void;
  /** The client is gone. */
  onClientGone(): void;
  /** The client takes more again. */
  drained(): void;
  /** Called ten times a second, before the wait is measured: for changes that no event tells. */
  onTick?(nowMs: number): void;
};
