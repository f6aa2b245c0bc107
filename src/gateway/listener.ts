import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Server as NetServer, type Socket } from "node:net";
import type { Address } from "../config/config.ts";
import type { EdgeLimits } from "../core/limits.ts";
import { plainAddress } from "./address.ts";
import { Connection } from "./connection.ts";
import { Exchange } from "./exchange.ts";
import type { Gateway, Served } from "./gateway.ts";
import { handle } from "./handle.ts";
import { largest } from "./largest.ts";
import { answerParserError } from "./parser-error.ts";
import { sendRefusal } from "./reply.ts";
import { Sweep } from "./sweep.ts";

/** One listening address and the environments behind it. */
export type Listener = {
  readonly url: string;
  /** Replaces the environments, with their limits, for every later request. */
  serve(serves: readonly Served[]): void;
  /** Takes no more connections. */
  stopListening(): void;
  /** Resolves when no exchange is under way, or at the deadline; then ends every connection. */
  close(deadlineMs: number): Promise<void>;
  /** Exchanges under way. */
  active(): number;
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
  let current = serves;

  const start = (exchange: Exchange) => {
    sweep.add(exchange);
    handle(gateway, current, exchange).catch((error: unknown) =>
      unexpected(gateway, exchange, error),
    );
  };
  const accept =
    (asksToContinue: boolean) => (request: IncomingMessage, response: ServerResponse) => {
      const exchange = new Exchange(request, response, {
        id: randomUUID(),
        startedMs: gateway.elapsed(),
        peer: plainAddress(request.socket.remoteAddress),
        asksToContinue,
      });
      response.once("close", () => ended(gateway, sweep, exchange));
      Connection.of(request.socket).enter(exchange, start);
    };

  const server = createServer({
    // A missing Host is ours to refuse, in our words.
    requireHostHeader: false,
    optimizeEmptyRequests: true,
    // Without this the time limits of the server mean nothing before 30 s (edge.md).
    connectionsCheckingInterval: 1_000,
  });
  server.on("request", accept(false));
  server.on("checkContinue", accept(true));
  server.on("checkExpectation", accept(false));
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    answerParserError(error, socket, largest(current));
  });
  server.on("connect", (_request: IncomingMessage, socket: Socket) => {
    answerParserError(Object.assign(new Error("CONNECT"), { code: "CONNECT" }), socket, undefined);
  });
  limit(server, serves);
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host: address.host, port: address.port }, () => resolve());
  });
  sweep.start();

  return {
    url: urlOf(server, address),
    serve(next) {
      current = next;
      limit(server, next);
    },
    stopListening: () => stopListening(server),
    active: () => sweep.active,
    async close(deadlineMs) {
      stopListening(server);
      await sweep.idle(deadlineMs);
      sweep.stop();
      server.close();
      server.closeAllConnections();
    },
  };
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
  // 499, as others log it: the client went away before there was an answer.
  gateway.onRequest(
    exchange.line(response.headersSent ? response.statusCode : 499, gateway.elapsed()),
  );
  Connection.of(exchange.socket).leave(exchange);
}

function unexpected(gateway: Gateway, exchange: Exchange, error: unknown): void {
  const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
  gateway.log.error("a request failed unexpectedly", { id: exchange.id, error: why });
  sendRefusal(gateway, exchange, { code: "internal_error" }).catch(() => exchange.socket.destroy());
}

function urlOf(server: Server, { host }: Address): string {
  const bound = server.address();
  const port = typeof bound === "object" && bound !== null ? bound.port : 0;
  return `http://${host.includes(":") ? `[${host}]` : host}:${port}`;
}
