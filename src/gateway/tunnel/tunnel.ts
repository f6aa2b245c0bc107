import type { ClientRequest, IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { afterRunning, setTimeoutAfterPoll } from "../../base/event-loop.ts";
import { discardInput, endThenDiscard } from "../../base/linger.ts";
import { closeFrame, switchError } from "../../core/http/websocket.ts";
import type { KeyRecord } from "../../core/keys/records.ts";
import { isUpstreamFault, type Refusal } from "../../core/refusal.ts";
import type { UpstreamSpan } from "../../telemetry/tracing/tracing.ts";
import type { Environment } from "../exchange/environment.ts";
import type { ForwardHandler } from "../exchange/exchange.ts";
import { readAnswerHead } from "../exchange/metered-answer.ts";
import type { OpenTunnel, TunnelRegistry, Upgrade } from "../exchange/open-tunnel.ts";
import { RetryPolicy, ROUND_MS } from "../forward/retry-policy.ts";
import { type ForwardContext, startUpstreamSpan } from "../forward/upstream-request.ts";
import {
  EarlyHints,
  endReason,
  failureRefusal,
  validateFieldCount,
  validateResponse,
} from "../forward/upstream-response.ts";
import { warnOfFilesShortage } from "../runtime/files-shortage.ts";
import { failExchange, sendRefusal } from "../stages/reply.ts";
import type { Upstream } from "../upstreams/upstream.ts";
import { ClientStream } from "./client-stream.ts";
import { declinedFields, handshakeFields, switchingFields } from "./handshake.ts";
import { handshakeFailure, sendHandshake } from "./proxied-handshake.ts";

/** Asks an upstream for the WebSocket, and forwards both directions once it has agreed. */
export function openTunnel(context: ForwardContext, upgrade: Upgrade): void {
  const tunnel = new Tunnel(context, upgrade);
  if (upgrade.tunnels.enter(tunnel)) tunnel.start();
  else void sendRefusal(context.gateway, context.exchange, { code: "too_many_tunnels" });
}

/**
 * A client has this time to read what the backend sent before its end. If the socket is destroyed
 * sooner, what the client sends in the meantime is answered with a reset, which discards the rest.
 */
const LINGER_MS = 5_000;
/** The backend has this time to end after its client, because it may not notice that one is gone. */
const FAREWELL_MS = 1_000;

class Tunnel implements ForwardHandler, OpenTunnel {
  readonly key: KeyRecord | undefined;
  readonly owner: string;
  readonly client: string;
  readonly environment: Environment;
  readonly #context: ForwardContext;
  readonly #tunnels: TunnelRegistry;
  readonly #nonce: string;
  readonly #retryPolicy: RetryPolicy;
  #client: ClientStream | undefined;
  #upstream: Upstream | undefined;
  #span: UpstreamSpan | undefined;
  #request: ClientRequest | undefined;
  #backend: Socket | undefined;
  #answering = false;
  /** An ordinary response instead of a 101. */
  #answer: IncomingMessage | undefined;
  #bytes = 0;
  #settled = false;
  #timer: NodeJS.Timeout | undefined;
  #stopFarewell = () => {};

  constructor(context: ForwardContext, { tunnels, nonce }: Upgrade) {
    const { key, account } = context.caller;
    this.key = key;
    this.owner = key?.id ?? account;
    this.client = context.exchange.arrival.client;
    this.environment = context.environment;
    this.#context = context;
    this.#tunnels = tunnels;
    this.#nonce = nonce;
    const { gateway, service } = context;
    this.#retryPolicy = new RetryPolicy("GET", service.limits.connectRetryMs, gateway.elapsed);
  }

  start(): void {
    this.#context.exchange.forward(this);
    this.#try();
  }

  /** Makes one attempt. `#onFailure` decides whether there is another one. */
  #try(): void {
    const { gateway, exchange } = this.#context;
    exchange.wait("connection", gateway.elapsed());
    this.#connect();
  }

  #connect(): void {
    const { gateway, exchange, service, target } = this.#context;
    const upstream = service.upstreams.pick(this.#retryPolicy);
    const client = new ClientStream();
    this.#upstream = upstream;
    this.#client = client;
    exchange.tryAt(upstream.origin);
    this.#span = startUpstreamSpan(this.#context, upstream);
    const headers = handshakeFields(this.#context, upstream, this.#nonce, this.#span);
    const { destination } = upstream;
    sendHandshake(
      client,
      { destination, target, headers },
      {
        onRequest: (request) => this.#onRequest(request),
        onConnect: () => {
          clearTimeout(this.#timer);
          exchange.countForward();
          exchange.wait("answer", gateway.elapsed());
        },
        onError: (error) => this.#onFailure(client, error),
      },
    );
  }

  // Events of the proxy library's request. They run before its own listeners.

  #onRequest(request: ClientRequest): void {
    const { exchange, service } = this.#context;
    const { connectTimeoutMs } = service.upstreams.options;
    this.#request = request;
    this.#timer = setTimeoutAfterPoll(connectTimeoutMs, () => {
      const isConnecting = request === this.#request && exchange.waiting === "connection";
      if (isConnecting) request.destroy(new Error("timeout"));
    });
    const unasked = { code: "upstream_invalid", why: "status 100" } as const;
    request.once("continue", () => this.#fail(unasked));
    const hints = new EarlyHints();
    request.on("information", ({ statusCode, rawHeaders }) => {
      const wrong = validateFieldCount(rawHeaders);
      if (wrong !== undefined) this.#fail({ code: "upstream_invalid", why: wrong });
      if (!this.#settled) hints.pass(this.#context, statusCode, rawHeaders);
    });
    request.once("upgrade", (answer, socket) => this.#onUpgrade(answer, socket as Socket));
    request.once("response", (answer) => this.#onResponse(answer));
  }

  /** Called for a 101. It is passed on if it belongs to this handshake. */
  #onUpgrade(answer: IncomingMessage, socket: Socket): void {
    const { gateway, exchange } = this.#context;
    socket.on("error", () => undefined);
    this.#backend = socket;
    this.#answering = true;
    const { rawHeaders } = answer;
    const wrong = validateResponse(101, rawHeaders) ?? switchError(rawHeaders, this.#nonce);
    if (wrong !== undefined) this.#fail({ code: "upstream_invalid", why: wrong });
    if (this.#settled) {
      socket.destroy();
      return;
    }
    this.#noteHead(101);
    exchange.startTunnel(gateway.elapsed());
    readAnswerHead(exchange, { status: 101, rawHeaders }, 0);
    const client = this.#client as ClientStream;
    client.open(exchange.connection.detachSocket());
    exchange.socket.once("end", () => this.#onClientEnd(client, socket));
    // Node has ended its own side by then, and the library would write on.
    socket.once("end", () => client.unpipe(socket));
    client.once("finish", () => this.#onBackendEnd());
    answer.headers = switchingFields(this.#context, rawHeaders, this.#nonce);
  }

  /**
   * Called when the client has ended. It may still read, and more slowly than its backend sends: the
   * end of the backend may be behind what waits for it. A stall is no time of the backend: what came
   * during one has not been read yet.
   */
  #onClientEnd(client: ClientStream, backend: Socket): void {
    const { exchange } = this.#context;
    const wait = () => {
      this.#stopFarewell();
      if (this.#settled || backend.readableEnded) return;
      this.#stopFarewell = afterRunning(FAREWELL_MS, () => {
        if (client.writableLength > 0) wait();
        else exchange.cut("the client went away");
      });
    };
    wait();
    client.on("drain", wait);
    backend.once("end", () => this.#stopFarewell());
  }

  /**
   * Called when the backend's connection has ended and the system has all that came from it. What
   * the client sends has no destination any more, so the tunnel is over whatever the client does.
   */
  #onBackendEnd(): void {
    if (this.#settled) return;
    const { exchange } = this.#context;
    this.#settle();
    this.#backend?.destroy();
    discardInput(exchange.socket, LINGER_MS);
    exchange.endTunnel();
  }

  /** Any other answer is an ordinary response, and the last one on this connection. */
  #onResponse(answer: IncomingMessage): void {
    answer.on("error", (error) => this.#fail({ code: "upstream_invalid", why: error.message }));
    // The library does not write to a destroyed stream: it only keeps reading.
    this.#client?.destroy();
    this.#answering = true;
    const { gateway, exchange } = this.#context;
    const { statusCode: status = 0, rawHeaders } = answer;
    const wrong = status < 200 ? `status ${status}` : validateResponse(status, rawHeaders);
    if (wrong !== undefined) {
      this.#fail({ code: "upstream_invalid", why: wrong });
      return;
    }
    this.#noteHead(status);
    this.#tunnels.leave(this);
    const promisedBytes = Number(answer.headers["content-length"] ?? -1);
    exchange.startResponse(promisedBytes, gateway.elapsed());
    readAnswerHead(exchange, { status, rawHeaders }, 0);
    const { response } = exchange;
    response.writeHead(status, declinedFields(this.#context, rawHeaders, status));
    response.flush();
    this.#answer = answer;
    answer.on("data", (chunk: Buffer) => {
      exchange.addBodyBytes(chunk.length, gateway.elapsed());
      if (response.write(chunk)) return;
      answer.pause();
      exchange.wait("reader", gateway.elapsed());
    });
    answer.once("end", () => {
      if (this.#upstream) this.#context.service.upstreams.health.delivered(this.#upstream);
      exchange.completeAnswer();
      this.#settle();
      response.end();
    });
  }

  /** Called for every end of an attempt. `client` identifies the attempt. */
  #onFailure(client: ClientStream, error: Error): void {
    const { exchange, gateway, service } = this.#context;
    if (client !== this.#client) return;
    const failure = handshakeFailure(error, exchange.forwards > 0, this.#answering);
    const refusal = failureRefusal(failure);
    if (exchange.state === "tunnelling") {
      exchange.setReason(`the backend's connection: ${refusal.why}`);
      return;
    }
    const upstream = this.#upstream;
    if (this.#settled || upstream === undefined) return;
    const again = this.#retryPolicy.nextAttempt(service.upstreams, upstream, failure);
    if (again === undefined) {
      this.#fail(refusal);
      return;
    }
    this.#span?.end(refusal.code);
    if (again === "short") warnOfFilesShortage(gateway);
    else service.upstreams.health.failed(upstream, refusal);
    this.#release();
    // It is one wait, so its time goes on.
    if (again === "short") this.#timer = setTimeout(() => this.#connect(), ROUND_MS);
    else if (typeof again === "string") this.#try();
    else this.#timer = setTimeout(() => this.#try(), again.pauseMs);
  }

  /** Ends the attempt. */
  #release(): void {
    clearTimeout(this.#timer);
    this.#stopFarewell();
    if (this.#upstream !== undefined) this.#context.service.upstreams.onRequestEnd(this.#upstream);
    this.#upstream = undefined;
    this.#client?.destroy();
    this.#client = undefined;
  }

  // Events of the gateway.

  onTick(nowMs: number): void {
    const { exchange } = this.#context;
    if (exchange.state !== "tunnelling") return;
    const bytes = exchange.socket.bytesRead + exchange.socket.bytesWritten;
    if (bytes !== this.#bytes) exchange.progress(nowMs);
    this.#bytes = bytes;
  }

  drained(): void {
    const { gateway, exchange } = this.#context;
    if (exchange.waiting === "reader") exchange.wait("download", gateway.elapsed());
    this.#answer?.resume();
  }

  onTimeout(): void {
    const { exchange } = this.#context;
    const { waiting } = exchange;
    if (waiting === "reader") exchange.cutStalledReader();
    else if (waiting === "tunnel") this.close(1001, "no byte passed, either way");
    else this.#fail({ code: "upstream_timeout", why: `waited too long for: ${waiting}` });
  }

  onClientGone(): void {
    this.#settle();
    this.#span?.end("client_gone");
    this.#request?.destroy();
    this.#backend?.destroy();
  }

  close(status: 1001 | 1008, why: string): void {
    const { exchange } = this.#context;
    if (exchange.state !== "tunnelling") {
      if (status === 1001) this.#fail({ code: "draining", why });
      return;
    }
    exchange.setReason(why);
    // In the middle of a frame a close frame cannot be sent: only the end of the connection can.
    const farewell = this.#client?.mayClose ? closeFrame(status) : [];
    this.#settle();
    this.#backend?.destroy();
    if (exchange.socket.writableEnded) exchange.socket.destroy();
    else endThenDiscard(exchange.socket, Buffer.from(farewell).toString("latin1"));
  }

  #fail(refusal: Refusal): void {
    if (this.#settled) return;
    const { gateway, exchange, service } = this.#context;
    if (isUpstreamFault(refusal.code) && this.#upstream !== undefined) {
      service.upstreams.health.failed(this.#upstream, refusal, exchange.state === "answering");
    }
    this.#settle();
    this.#span?.end(refusal.code);
    this.#request?.destroy();
    failExchange(gateway, exchange, { ...refusal, why: endReason(refusal, exchange) });
  }

  #settle(): void {
    this.#settled = true;
    const { exchange, gateway } = this.#context;
    exchange.settle(gateway.elapsed());
    this.#tunnels.leave(this);
    this.#release();
  }

  /** The upstream's head ends the span, because the bytes after it are no response. */
  #noteHead(status: number): void {
    const { service, caller } = this.#context;
    if (this.#upstream !== undefined) {
      service.upstreams.health.answered(this.#upstream, caller.account, status);
      // The bytes after a 101 are no body that could break.
      if (status === 101) service.upstreams.health.delivered(this.#upstream);
    }
    this.#span?.setStatus(status);
    this.#span?.end();
  }
}
