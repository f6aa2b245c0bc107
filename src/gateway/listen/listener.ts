import { randomUUID } from "node:crypto";
import type { IncomingMessage, Server, ServerOptions, ServerResponse } from "node:http";
import { type AddressInfo, Server as NetServer, type Socket } from "node:net";
import { type Address, formatAddress } from "../../core/http/address.ts";
import { judgeHandshake } from "../../core/http/websocket.ts";
import type { OpenCharge } from "../../telemetry/recall.ts";
import { clientAddress, plainAddress, type TrustedProxies } from "../client/client-address.ts";
import { Exchange } from "../exchange/exchange.ts";
import type { Upgrade } from "../exchange/open-tunnel.ts";
import { lineOf } from "../exchange/request-line.ts";
import { type Gateway, loosestLimits, type Served, schemeOf } from "../exchange/served.ts";
import { handle } from "../handle.ts";
import { sendRefusal } from "../stages/reply.ts";
import { Tunnels } from "../tunnel/open-tunnels.ts";
import { createEdgeServer, renewCertificate } from "./edge-server.ts";
import { adoptSocket } from "./handover.ts";
import { answerParserError } from "./parser-error.ts";
import { Pipeline } from "./pipeline.ts";
import { limit, tellLimit } from "./server-limits.ts";
import { Timeouts } from "./timeouts.ts";

/**
 * Opens a public listener. Rejects with Node's own error when the address cannot be had; the caller
 * knows the setting to name. Port 0 takes any free port.
 */
export async function openListener(
  gateway: Gateway,
  address: Address,
  serves: readonly Served[],
): Promise<Listener> {
  const listener = new Listener(gateway, address, serves);
  await listener.listen();
  return listener;
}

/** One listening address and the environments behind it. */
export class Listener {
  readonly #gateway: Gateway;
  readonly #address: Address;
  readonly #timeouts: Timeouts;
  readonly #tunnels: Tunnels;
  readonly #server: Server;
  #serves: readonly Served[];
  /**
   * Requests with an Upgrade that are served without. Node's parser stops at their end, and what
   * came in the same piece is lost: where the next request would begin is not known any more.
   */
  readonly #declined = new WeakSet<IncomingMessage>();

  constructor(gateway: Gateway, address: Address, serves: readonly Served[]) {
    this.#gateway = gateway;
    this.#address = address;
    this.#timeouts = new Timeouts(gateway);
    this.#tunnels = new Tunnels(gateway);
    this.#serves = serves;
    this.#server = createEdgeServer(gateway, this.#options(), () => this.#serves);
    this.#hear();
    limit(this.#server, serves, gateway);
  }

  async listen(): Promise<void> {
    const { host, port } = this.#address;
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ host, port }, () => resolve());
    });
    this.#timeouts.start();
    // Behind the line that says that all of it serves, where it does.
    const tell = () => tellLimit(this.#server, this.#serves, this.#gateway);
    setTimeout(tell, TELL_LIMIT_MS).unref();
  }

  get url(): string {
    return urlOf(this.#server, this.#address, this.#serves);
  }

  /** Exchanges under way, tunnels among them. */
  active(): number {
    return this.#timeouts.active;
  }

  charges(): OpenCharge[] {
    return this.#timeouts.charges();
  }

  tunnels(): number {
    return this.#tunnels.size;
  }

  /** Replaces the environments, with their limits and certificates, for all that comes later. */
  serve(serves: readonly Served[]): void {
    this.#serves = serves;
    limit(this.#server, serves, this.#gateway);
    renewCertificate(this.#server, serves);
  }

  cut(): void {
    this.#timeouts.cut();
  }

  /** Resolves when no exchange is under way, or at the deadline; then ends every connection. */
  async close(deadlineMs: number): Promise<void> {
    stopListening(this.#server);
    await this.#timeouts.idle(deadlineMs);
    if (this.#tunnels.size > 0) {
      this.#tunnels.closeAll(1001, "the gateway is going away");
      await this.#timeouts.idle(FAREWELL_MS);
    }
    this.#server.close();
    this.#server.closeAllConnections();
    // Every exchange has its line before anything else ends: a charge without a line breaks the law
    // (docs/reference/http.md#law).
    this.#timeouts.cut();
    await this.#timeouts.idle(CUT_MS);
    this.#timeouts.stop();
  }

  #options(): ServerOptions {
    return {
      // A missing Host is ours to refuse, in our words.
      requireHostHeader: false,
      optimizeEmptyRequests: true,
      // Node looks at its time limits every 30 s unless told otherwise.
      connectionsCheckingInterval: 1_000,
      shouldUpgradeCallback: (request) => {
        if (nonceOf(request) !== undefined) return true;
        this.#declined.add(request);
        return false;
      },
    };
  }

  #hear(): void {
    const server = this.#server;
    server.on("request", (request, response) => this.#accept(request, response));
    server.on("checkContinue", (request, response) => this.#accept(request, response, true));
    server.on("checkExpectation", (request, response) => this.#accept(request, response));
    server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
      answerParserError(error, socket, loosestLimits(this.#serves));
    });
    server.on("upgrade", (request: IncomingMessage, socket: Socket, early: Buffer) => {
      const upgrade = { nonce: nonceOf(request) as string, tunnels: this.#tunnels };
      this.#accept(request, adoptSocket(request, socket, early), false, upgrade);
    });
    server.on("connect", (request: IncomingMessage, socket: Socket, early: Buffer) => {
      const accept = () => this.#accept(request, adoptSocket(request, socket, early));
      const pipeline = Pipeline.of(socket);
      if (pipeline.current === undefined) accept();
      else pipeline.lastWords = accept;
    });
  }

  #accept(
    request: IncomingMessage,
    response: ServerResponse,
    asksToContinue = false,
    upgrade?: Upgrade,
  ): void {
    const { memory = "enough" } = this.#gateway;
    const peer = plainAddress(request.socket.remoteAddress);
    const exchange = new Exchange(request, response, {
      id: randomUUID(),
      startedMs: this.#gateway.elapsed(),
      environment: this.#serves.length === 1 ? this.#serves[0]?.name : undefined,
      peer,
      client: clientOf(request, peer, this.#gateway.isTrusted),
      asksToContinue,
      upgrade,
      last: memory !== "enough" || this.#declined.has(request),
    });
    response.once("close", () => this.#ended(exchange));
    Pipeline.of(request.socket).enter(exchange, this.#start);
  }

  readonly #start = (exchange: Exchange): void => {
    this.#timeouts.add(exchange);
    handle(this.#gateway, this.#serves, exchange).catch((error: unknown) => {
      unexpected(this.#gateway, exchange, error);
    });
  };

  #ended(exchange: Exchange): void {
    exchange.end(() => this.#tell(exchange));
    Pipeline.of(exchange.socket).leave(exchange);
  }

  #tell(exchange: Exchange): void {
    this.#timeouts.delete(exchange);
    const { elapsed, onRequest } = this.#gateway;
    onRequest(lineOf(exchange, elapsed()));
    const { served, found, account } = exchange;
    const operation = found?.operation;
    if (operation?.lifecycle.deprecated && served !== undefined && account !== undefined) {
      const { method, template: route } = operation;
      this.#gateway.onDeprecated?.({ environment: served.name, method, route }, account);
    }
  }
}

const TELL_LIMIT_MS = 1_000;
/** For what is cut to end: a decision under way is waited for. */
const CUT_MS = 500;
/** For the last words of tunnels to arrive: a little more than we linger for them. */
const FAREWELL_MS = 1_200;

/**
 * The Sec-WebSocket-Key of a handshake that may become a tunnel. Undefined also where an earlier
 * request of its connection is unanswered: a 101 would overtake that answer
 * (docs/reference/edge.md#upgrade).
 */
function nonceOf(request: IncomingMessage): string | undefined {
  if (Pipeline.of(request.socket).current !== undefined) return undefined;
  const { method = "", url = "", httpVersion: version, rawHeaders } = request;
  const handshake = judgeHandshake({ method, url, version, rawHeaders });
  return handshake.ok ? handshake.value.key : undefined;
}

/**
 * Stops listening on the socket alone. `Server.close` of node:http would also end connections that
 * are idle now, and a request that comes on one of them during the drain is to get its 503
 * (docs/reference/edge.md#drain).
 */
function stopListening(server: Server): void {
  if (server.listening) NetServer.prototype.close.call(server);
}

function clientOf(request: IncomingMessage, peer: string, isTrusted: TrustedProxies): string {
  // Reading `headers` builds them: only where a proxy is believed at all.
  if (!isTrusted(peer)) return peer;
  return clientAddress(peer, request.headers["x-forwarded-for"]?.toString(), isTrusted);
}

function unexpected(gateway: Gateway, exchange: Exchange, error: unknown): void {
  const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
  gateway.log.error("request_failed", { id: exchange.id, error: why });
  sendRefusal(gateway, exchange, { code: "internal_error" }).catch(() => exchange.socket.destroy());
}

function urlOf(server: Server, { host }: Address, [first]: readonly Served[]): string {
  const scheme = first === undefined ? "http" : schemeOf(first);
  const { port } = server.address() as AddressInfo;
  return `${scheme}://${formatAddress({ host, port })}`;
}
