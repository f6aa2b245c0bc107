import type { Socket } from "node:net";
import type { CorsPolicy } from "../../core/http/cors.ts";
import { fieldValues, type RequestHead } from "../../core/http/head.ts";
import type { RouteMatch } from "../../core/http/route.ts";
import type { AccountRecord, KeyRecord } from "../../core/keys/records.ts";
import type { RateLimitInfo } from "../../core/quota/rate-limit-info.ts";
import { isDecision, type Refusal, type RefusalCode } from "../../core/refusal.ts";
import type { IncomingRequest } from "../../http1/server/incoming-request.ts";
import type { ResponseListener, ResponseWriter } from "../../http1/server/response-writer.ts";
import type { ServerConnection } from "../../http1/server/server-connection.ts";
import type { AccessLogEntry } from "../../telemetry/log/log.ts";
import type { ConcurrencyLimiter } from "../client/concurrency-limiter.ts";
import type { Environment, Service } from "./environment.ts";
import type { CallerIdentity, DecisionFacts, RefusalFacts } from "./exchange-record.ts";
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
 * One request and its response, from the head to the last byte: all that is known of it, the
 * decision, and the present wait. The log line is written from it. Only the methods below change it
 * (test/tidy.test.ts sees to that).
 */
export class Exchange implements ResponseListener {
  readonly request: IncomingRequest;
  readonly response: ResponseWriter;
  readonly connection: ServerConnection;
  readonly socket: Socket;
  readonly #onEnd: (exchange: Exchange) => void;
  readonly arrival: RequestContext;
  readonly id: string;

  stage: ExchangeState = "judging";
  // Learned while the request is judged, piece by piece: a refusal tells what is known by then.
  head: RequestHead | undefined;
  path: string;
  served: Environment | undefined;
  found: RouteMatch | undefined;
  backend: Service | undefined;
  cors: CorsPolicy | undefined;
  key: KeyRecord | undefined;
  account: string | undefined;
  plan: string | undefined;
  meta: AccountRecord["meta"] | undefined;
  standing: RateLimitInfo | undefined;
  policy: string | undefined;
  /** Units that the request costs. */
  cost = 1;

  decision: "admitted" | "refused" | "none" = "none";
  charged = 0;
  decidedMs: number | undefined;
  strikes: number | undefined;
  observed: AccessLogEntry["observed"];
  /** The state that a refusal was decided by. */
  refusal: RefusalFacts | undefined;
  code: RefusalCode | undefined;
  why: string | undefined;
  source: "gateway" | "backend" = "gateway";
  /** The origin that it was last sent to, or tried at. */
  upstream: string | undefined;
  forwards: 0 | 1 | 2 = 0;
  /** The response says `Connection: close`. */
  last: boolean;
  /** The fault of the client's later bytes, where nothing was there to be told of it. */
  broken: Refusal | undefined;

  waiting: WaitKind = "nothing";
  /** On the clock of the arrival: when the present wait began, or last made progress. */
  progressMs: number;
  /**
   * The backend's body: bytes so far, and the length that its head promised, or -1 where it
   * promised none.
   */
  bodyBytes = 0;
  promisedBytes = -1;
  /** The forwarding under way, which ends waits that take too long and requests that break. */
  forwarding: ForwardHandler | undefined;
  /** Its place in the list of the listener's timeouts; -1 while it is not in it. */
  timeoutsPlace = -1;
  #occupied: { readonly concurrency: ConcurrencyLimiter; readonly account: string } | undefined;
  #deciding: Promise<unknown> | undefined;
  /** Bytes of an ended response that the client had not taken at the last look. */
  #unread = -1;
  #switched = false;
  #stalled = false;

  /** `onEnd` is called when the response has ended, or nobody is there to get one any more. */
  constructor(
    { request, response, connection }: ExchangeParts,
    arrival: RequestContext,
    onEnd: (exchange: Exchange) => void,
  ) {
    this.request = request;
    this.response = response;
    this.connection = connection;
    this.socket = connection.socket;
    this.arrival = arrival;
    this.id = arrival.id;
    this.last = arrival.last;
    this.progressMs = arrival.startedMs;
    this.path = pathOf(request.target);
    this.#onEnd = onEnd;
    if (arrival.last) response.isLast = true;
    response.listener = this;
  }

  onDrain(): void {
    this.forwarding?.drained();
  }

  onClose(): void {
    this.#onEnd(this);
  }

  /** The page that asks, by its Origin field; undefined where there is none, or more than one. */
  get origin(): string | undefined {
    const values = fieldValues(this.request.rawHeaders, "origin");
    return values.length === 1 ? values[0] : undefined;
  }

  get over(): boolean {
    return this.stage === "over";
  }

  /** The status for the line. 499, as others log it: there was nobody to take an answer, or all of it. */
  get status(): number {
    if (this.#switched) return 101;
    if (this.#stalled || !this.response.headWritten) return 499;
    return this.response.status;
  }

  // Judged and decided.

  /** The head is well-formed. */
  readHead(head: RequestHead): void {
    this.head = head;
  }

  /** The answer comes from this environment; `served` may be unknown while its pages may read it. */
  answerFor(served: Environment | undefined, cors: CorsPolicy | undefined): void {
    this.served = served;
    this.cors = cors;
  }

  /** The route is found, and judged later. */
  find(path: string, found: RouteMatch, backend: Service | undefined): void {
    this.path = path;
    this.found = found;
    this.backend = backend;
    this.cost = found.cost;
  }

  /** The key is accepted, or the address where none is needed. */
  identify({ key, owner, account, plan }: CallerIdentity): void {
    this.key = key;
    this.meta = owner?.meta;
    this.account = account;
    this.plan = plan;
  }

  /** The state of the account, or of the address's failure allowance, where nothing is decided. */
  stand(standing: RateLimitInfo): void {
    this.standing = standing;
  }

  /** The RateLimit-Policy field, where the configuration asks for it. */
  announce(policy: string): void {
    this.policy = policy;
  }

  /**
   * If the client disconnects while we wait for the store, its log line is written after the
   * decision, so that it shows whether the request was charged (docs/reference/http.md#request-line).
   */
  awaitDecision(deciding: Promise<unknown>): void {
    this.stage = "deciding";
    this.#deciding = deciding;
  }

  /** The store has answered, or what stands in for it. */
  decided(): void {
    this.#deciding = undefined;
    if (this.stage === "deciding") this.stage = "judging";
  }

  decide({
    decision,
    charged,
    standing,
    decidedMs,
    strikes,
    observed,
    refusal,
  }: DecisionFacts): void {
    this.decision = decision;
    this.charged = charged;
    this.standing = standing;
    this.decidedMs = decidedMs;
    this.strikes = strikes;
    this.observed = observed;
    this.refusal = refusal;
  }

  /**
   * Counts the request among those of its account that are under way, until it ends; false where
   * there are `max` already.
   */
  occupy(concurrency: ConcurrencyLimiter, account: string, max: number): boolean {
    if (!concurrency.enter(account, max)) return false;
    this.#occupied = { concurrency, account };
    return true;
  }

  /** The gateway says no: the code, and the reason for the log unless there was one before. */
  refuse({ code, why }: Refusal): void {
    this.code = code;
    if (isDecision(code)) this.decision = "refused";
    this.why ??= why;
  }

  /** The reason for the log; the first one stays. */
  explain(why: string | undefined): void {
    this.why ??= why;
  }

  /** Nothing more is served on this connection. */
  closeAfter(): void {
    this.last = true;
    this.response.isLast = true;
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
  answer(promisedBytes: number, nowMs: number): void {
    this.stage = "answering";
    this.source = "backend";
    this.promisedBytes = promisedBytes;
    this.wait("download", nowMs);
  }

  /** The backend's head turns out to be of no use, before any of it has gone out. */
  takeBackAnswer(): void {
    if (this.socket.destroyed || !this.response.takeBackHead()) return;
    this.stage = "forwarding";
    this.source = "gateway";
    this.promisedBytes = -1;
  }

  /** The backend has agreed to a WebSocket. */
  switch(nowMs: number): void {
    this.stage = "tunnelling";
    this.source = "backend";
    this.#switched = true;
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
  took(bytes: number, nowMs: number): void {
    this.bodyBytes += bytes;
    this.progressMs = nowMs;
  }

  /** The rest of the request cannot be believed: tells the forwarding under way. */
  breaks(refusal: Refusal): void {
    this.broken ??= refusal;
    this.forwarding?.broken?.(refusal);
  }

  /** The listener's timeouts keep it at this place of their list; -1 where they do not. */
  moveTo(place: number): void {
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
      this.stall();
    }
  }

  /** The client stopped reading: it is cut (docs/reference/edge.md#slow-readers). */
  stall(): void {
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
    this.#occupied?.concurrency.leave(this.#occupied.account);
    if (!this.response.finished) this.forwarding?.gone();
    if (this.#deciding === undefined) tell();
    else this.#deciding.then(tell, tell);
  }
}

/** Without the query, which clients fill with secrets. */
function pathOf(url: string): string {
  const question = url.indexOf("?");
  return question === -1 ? url : url.slice(0, question);
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
  late(): void;
  /**
   * The client's bytes turned out to be wrong after the request was forwarded. Nothing after the
   * head of an upgrade is read as a request, so nothing of that can.
   */
  broken?(refusal: Refusal): void;
  /** The client is gone. */
  gone(): void;
  /** The client takes more again. */
  drained(): void;
  /** Called ten times a second, before the wait is measured: for changes that no event tells. */
  onTick?(nowMs: number): void;
};
