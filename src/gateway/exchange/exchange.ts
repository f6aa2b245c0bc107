import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { CorsPolicy } from "../../core/http/cors.ts";
import type { Head } from "../../core/http/head.ts";
import type { Found } from "../../core/http/route.ts";
import { type KeyRecord, maskKeys } from "../../core/keys/key.ts";
import type { Standing } from "../../core/quota/standing.ts";
import type { Refusal, RefusalCode } from "../../core/refusal.ts";
import type { RequestLine } from "../../telemetry/log.ts";
import type { Served } from "./served.ts";

/**
 * The thing that the gateway waits for. Each wait has a limit of its own
 * (docs/reference/edge.md#timeouts).
 */
export type Waiting = "nothing" | "connection" | "upload" | "answer" | "download" | "tunnel";

export type Forwarding = {
  /** The present wait took longer than its limit. */
  late(): void;
  /**
   * The client's bytes turned out to be wrong after the request was forwarded. Nothing after the
   * head of an upgrade is read as a request, so nothing of that can.
   */
  broken?(refusal: Refusal): void;
  /** The client is gone. */
  gone(): void;
  /** Called ten times a second, before the wait is measured: for changes that no event tells. */
  onTick?(nowMs: number): void;
};

/**
 * The client asks for a WebSocket as it should (docs/reference/edge.md#upgrade). `nonce` is its
 * Sec-WebSocket-Key.
 */
export type Upgrade = { readonly nonce: string; readonly tunnels: TunnelRegister };

/** Counts the tunnels of each key: implemented by the open tunnels of a listener. */
export type TunnelRegister = {
  /** Counts a tunnel in; false where its key has as many as it may. */
  enter(tunnel: OpenTunnel): boolean;
  leave(tunnel: OpenTunnel): void;
};

/**
 * One request and its response, from the head to the last byte: all that is known of it, the
 * decision, and the present wait. The log line is written from it.
 */
export class Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly socket: Socket;
  readonly id: string;
  readonly startedMs: number;
  readonly peer: string;
  /** The client wants `100 Continue` before it sends the body. */
  readonly asksToContinue: boolean;

  head: Head | undefined;
  path: string;
  served: Served | undefined;
  found: Found | undefined;
  /** The environment's policy, as soon as it is known which environment the answer comes from. */
  cors: CorsPolicy | undefined;
  key: KeyRecord | undefined;
  standing: Standing | undefined;
  /** The RateLimit-Policy field, where the configuration asks for it. */
  policy: string | undefined;
  code: RefusalCode | undefined;
  why: string | undefined;
  source: "gateway" | "backend" = "gateway";
  decision: "admitted" | "refused" | "none" = "none";
  charged: number = 0;
  /** Units that the request costs. */
  cost = 1;
  forwards: 0 | 1 | 2 = 0;

  waiting: Waiting = "nothing";
  /** On the clock of `startedMs`: when the present wait began, or last made progress. */
  progressMs: number;
  /**
   * The backend's body: bytes so far, and the length that its head promised, or -1 where it
   * promised none.
   */
  bodyBytes = 0;
  promisedBytes = -1;
  /** Bytes of an ended response that the client had not taken at the last look. */
  leftToFlush = -1;
  /** Its place in the list of the listener's timeouts; -1 while it is not in it. */
  timeoutsPlace = -1;
  /** The forwarding under way, which ends waits that take too long and requests that break. */
  forwarding: Forwarding | undefined;
  /** Set where the socket was handed over for an upgrade: then this request is its last. */
  upgrade: Upgrade | undefined;
  /** The response says `Connection: close`: nothing that follows on the connection is a request. */
  last = false;
  /** While the store is asked. */
  deciding: Promise<unknown> | undefined;
  /** The response has ended, or nobody is there to get one any more. */
  over = false;
  /** The backend's 101 has gone out. */
  tunnelled = false;
  /** The fault of the client's later bytes, where nothing was there to be told of it. */
  broken: Refusal | undefined;
  /** The store's now when it decided: Retry-After counts from it. */
  decidedMs: number | undefined;

  constructor(
    request: IncomingMessage,
    response: ServerResponse,
    facts: { id: string; startedMs: number; peer: string; asksToContinue: boolean },
  ) {
    this.request = request;
    this.response = response;
    this.socket = request.socket;
    this.id = facts.id;
    this.startedMs = facts.startedMs;
    this.progressMs = facts.startedMs;
    this.peer = facts.peer;
    this.asksToContinue = facts.asksToContinue;
    this.path = pathOf(request.url as string);
  }

  wait(waiting: Waiting, nowMs: number): void {
    this.waiting = waiting;
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

  line(status: number, endedMs: number): RequestLine {
    const { served, key } = this;
    return {
      id: this.id,
      env: served?.name,
      account: key?.account,
      key: key?.id,
      plan: key?.plan,
      method: this.request.method as string,
      route: this.found?.template,
      path: maskKeys(this.path).slice(0, PATH_LOGGED_MAX),
      status,
      code: this.code,
      source: this.source,
      decision: this.decision,
      charged: this.charged,
      forwards: this.forwards,
      durationMs: Math.round((endedMs - this.startedMs) * 1000) / 1000,
      why: this.why,
    };
  }
}

const PATH_LOGGED_MAX = 2_048;

/** Without the query, which clients fill with secrets. */
function pathOf(url: string): string {
  const question = url.indexOf("?");
  return question === -1 ? url : url.slice(0, question);
}

/** An open tunnel, or one that waits for the backend's 101. */
export type OpenTunnel = {
  readonly key: KeyRecord;
  readonly served: Served;
  /** Ends it from our side: 1001, the gateway goes or nothing moves; 1008, the key may no longer. */
  close(status: 1001 | 1008, why: string): void;
};
