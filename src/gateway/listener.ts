import { randomUUID } from "node:crypto";
import type { IncomingMessage, Server, ServerResponse } from "node:http";
import { Server as NetServer, type Socket } from "node:net";
import type { Address } from "../config/config.ts";
import type { EdgeLimits } from "../core/limits.ts";
import { judgeHandshake } from "../core/websocket.ts";
import { plainAddress } from "./address.ts";
import { Connection } from "./connection.ts";
import { Exchange, type Upgrade } from "./exchange.ts";
import type { Gateway, Served } from "./gateway.ts";
import { handle } from "./handle.ts";
import { takeOver } from "./handover.ts";
import { largest } from "./largest.ts";
import { answerParserError } from "./parser-error.ts";
import { sendRefusal } from "./reply.ts";
import { Sweep } from "./sweep.ts";
import { createEdgeServer, renewCertificate } from "./tls.ts";
import { Tunnels } from "./tunnels.ts";

/** One listening address and the environments behind it. */
export type Listener = {
  readonly url: string;
  /** Replaces the environments, with their limits and certificates, for all that comes later. */
  serve(serves: readonly Served[]): void;
  /** Takes no more connections. */
  stopListening(): void;
  /** Resolves when no exchange is under way, or at the deadline; then ends every connection. */
  close(deadlineMs: number): Promise<void>;
  /** Exchanges under way, tunnels among them. */
  active(): number;
  tunnels(): number;
};

/**
 * Opens a public listener. Rejects with Node's own error when the address cannot be had; the caller
 * knows the setting to name. Port 0 takes any free port.
 */
export async function openListener(
  gateway: Gateway,
  address: Address,
  serves: readonly Served[],
): Promise<Listener> {
  const sweep = new Sweep(gateway);
  const tunnels = new Tunnels(gateway);
  let current = serves;

  /**
   * Requests with an Upgrade that are served without. Node's parser stops at their end, and what
   * came in the same piece is lost: where the next request would begin is not known any more.
   */
  const declined = new WeakSet<IncomingMessage>();

  const start = (exchange: Exchange) => {
    sweep.add(exchange);
    handle(gateway, current, exchange).catch((error: unknown) =>
      unexpected(gateway, exchange, error),
    );
  };
  const accept =
    (asksToContinue: boolean, upgrade?: Upgrade) =>
    (request: IncomingMessage, response: ServerResponse) => {
      const exchange = new Exchange(request, response, {
        id: randomUUID(),
        startedMs: gateway.elapsed(),
        peer: plainAddress(request.socket.remoteAddress),
        asksToContinue,
      });
      exchange.upgrade = upgrade;
      exchange.last = declined.has(request);
      response.once("close", () => ended(gateway, sweep, exchange));
      Connection.of(request.socket).enter(exchange, start);
    };

  const options = {
    // A missing Host is ours to refuse, in our words.
    requireHostHeader: false,
    optimizeEmptyRequests: true,
    // Without this the time limits of the server mean nothing before 30 s (edge.md).
    connectionsCheckingInterval: 1_000,
    shouldUpgradeCallback: (request: IncomingMessage) => {
      if (nonceOf(request) !== undefined) return true;
      declined.add(request);
      return false;
    },
  };
  const server = createEdgeServer(gateway, options, () => current);
  server.on("request", accept(false));
  server.on("checkContinue", accept(true));
  server.on("checkExpectation", accept(false));
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    answerParserError(error, socket, largest(current));
  });
  server.on("upgrade", (request: IncomingMessage, socket: Socket, early: Buffer) => {
    const upgrade = { nonce: nonceOf(request) ?? "", tunnels };
    accept(false, upgrade)(request, takeOver(request, socket, early));
  });
  server.on("connect", (_request: IncomingMessage, socket: Socket) => {
    // Node hands it over without anyone to hear its errors.
    socket.on("error", () => undefined);
    answerParserError(Object.assign(new Error("CONNECT"), { code: "CONNECT" }), socket, undefined);
  });
  limit(server, serves);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host: address.host, port: address.port }, () => resolve());
  });
  sweep.start();

  return {
    url: urlOf(server, address, serves),
    serve(next) {
      current = next;
      limit(server, next);
      renewCertificate(server, next);
    },
    stopListening: () => stopListening(server),
    active: () => sweep.active,
    tunnels: () => tunnels.size,
    async close(deadlineMs) {
      stopListening(server);
      await sweep.idle(deadlineMs);
      if (tunnels.size > 0) {
        tunnels.closeAll(1001, "the gateway is going away");
        await sweep.idle(FAREWELL_MS);
      }
      sweep.stop();
      server.close();
      server.closeAllConnections();
    },
  };
}

/** For the last words of tunnels to arrive: a little more than we linger for them. */
const FAREWELL_MS = 1_200;

/**
 * The key of a handshake that may become a tunnel, or undefined: also where an earlier request of
 * its connection is unanswered, since a 101 would overtake that answer (edge.md, Upgrade).
 */
function nonceOf(request: IncomingMessage): string | undefined {
  if (Connection.of(request.socket).current !== undefined) return undefined;
  const { method = "", url = "", httpVersion: version, rawHeaders } = request;
  const handshake = judgeHandshake({ method, url, version, rawHeaders });
  return handshake.ok ? handshake.value.key : undefined;
}

/**
 * Not the close of HTTP, which also ends the connections that have no request just now: a request
 * that comes on one of them during the drain is to get its 503 (edge.md, Process).
 */
function stopListening(server: Server): void {
  if (server.listening) NetServer.prototype.close.call(server);
}

/** Applies what holds for connections, and for heads whose host is not known yet. */
function limit(server: Server, serves: readonly Served[]): void {
  const limits = largest(serves);
  // Judged by us on rawHeaders: the parser's own count drops fields and says nothing (edge.md).
  server.maxHeadersCount = 0;
  Object.assign(server, { maxHeaderSize: parserBytesMax(limits) });
  server.headersTimeout = limits.headersTimeoutMs;
  server.requestTimeout = Math.max(limits.requestTimeoutMs, limits.headersTimeoutMs);
  server.keepAliveTimeout = limits.idleTimeoutMs;
  server.maxConnections = limits.connections;
}

/** Room for a target and fields that are each at their limit, so that ours is the answer. */
function parserBytesMax({ headerBytes, urlBytes }: EdgeLimits): number {
  return headerBytes + urlBytes + 1_024;
}

function ended(gateway: Gateway, sweep: Sweep, exchange: Exchange): void {
  const { response } = exchange;
  const finished = response.writableFinished;
  if (!finished) exchange.forwarding?.gone();
  sweep.delete(exchange);
  gateway.onRequest(exchange.line(statusOf(exchange), gateway.elapsed()));
  Connection.of(exchange.socket).leave(exchange);
}

function statusOf({ response, tunnelled }: Exchange): number {
  if (tunnelled) return 101;
  // 499, as others log it: the client went away before there was an answer.
  return response.headersSent ? response.statusCode : 499;
}

function unexpected(gateway: Gateway, exchange: Exchange, error: unknown): void {
  const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
  gateway.log.error("a request failed unexpectedly", { id: exchange.id, error: why });
  sendRefusal(gateway, exchange, { code: "internal_error" }).catch(() => exchange.socket.destroy());
}

function urlOf(server: Server, { host }: Address, [first]: readonly Served[]): string {
  const scheme = first?.certificate === undefined ? "http" : "https";
  const bound = server.address();
  const port = typeof bound === "object" && bound !== null ? bound.port : 0;
  return `${scheme}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
