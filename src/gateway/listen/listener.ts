import { randomUUID } from "node:crypto";
import type { AddressInfo, Server, Socket } from "node:net";
import {
  type AddressMatcher,
  formatHostPort,
  type HostPort,
  normalizeAddress,
} from "../../core/address.ts";
import { fieldValues } from "../../core/http/head.ts";
import { validateHandshake } from "../../core/http/websocket.ts";
import { containsKey } from "../../core/keys/key.ts";
import { accept, type Result, refuse } from "../../core/refusal.ts";
import type { IncomingRequest, RequestError } from "../../http1/server/incoming-request.ts";
import type { ResponseWriter } from "../../http1/server/response-writer.ts";
import { ServerConnection, type ServerHandler } from "../../http1/server/server-connection.ts";
import type { OpenCharge } from "../../telemetry/history/diagnostics.ts";
import { clientAddress } from "../client/client-address.ts";
import { accessLogEntry } from "../exchange/access-log.ts";
import { type Environment, type GatewayContext, schemeOf } from "../exchange/environment.ts";
import { Exchange } from "../exchange/exchange.ts";
import { meterCharges } from "../exchange/metered-answer.ts";
import type { TunnelRegistry, Upgrade } from "../exchange/open-tunnel.ts";
import { handle } from "../handle.ts";
import { sendRefusal } from "../stages/reply.ts";
import { settleMeters } from "../stages/settle.ts";
import { OpenTunnels } from "../tunnel/open-tunnels.ts";
import { ConnectionTable, type OpenConnection } from "./connection-table.ts";
import { createEdgeServer, renewCertificate } from "./edge-server.ts";
import { BODY_REASONS, errorResponseTo, refusalCodeFor } from "./parser-error.ts";
import { serverLimits, tableLimits, warnOfFileLimit } from "./server-limits.ts";
import { Timeouts } from "./timeouts.ts";

/** The environments of a listener, and the most connections that the open files allow it. */
type ListenerEnvironments = {
  readonly environments: readonly Environment[];
  readonly filesMax: number;
};

/** One listening address and the environments behind it. */
export class Listener implements ServerHandler {
  readonly #gateway: GatewayContext;
  readonly #address: HostPort;
  readonly #timeouts: Timeouts;
  readonly #tunnels: OpenTunnels;
  readonly #server: Server;
  readonly #connections: ConnectionTable;
  /** Connections that are still read after a refusal (docs/reference/edge.md#unread-bodies). */
  readonly #lingering = new Set<ServerConnection>();
  #environments: readonly Environment[];
  #filesMax: number;
  /** The port that it listens on; 0 until then. */
  #port = 0;
  limits: ServerHandler["limits"];
  readonly elapsed: () => number;
  readonly errorResponse = (error: RequestError, method: string) => {
    return errorResponseTo(error, method, this.#gateway.style.errors);
  };

  constructor(
    gateway: GatewayContext,
    address: HostPort,
    { environments, filesMax }: ListenerEnvironments,
  ) {
    this.#gateway = gateway;
    this.elapsed = gateway.elapsed;
    this.#address = address;
    this.#timeouts = new Timeouts(
      gateway,
      () => this.#environments,
      (nowMs) => this.#connections.tick(nowMs),
    );
    this.#tunnels = new OpenTunnels(gateway, () => this.#environments);
    this.#environments = environments;
    this.#filesMax = filesMax;
    this.limits = serverLimits(environments);
    this.#connections = new ConnectionTable(tableLimits(environments, gateway, filesMax), {
      onTurnedAway: (why) => gateway.onTurnedAway?.(why),
      tell: (told) => {
        const listen = formatHostPort({ host: address.host, port: this.#port });
        gateway.log.warn("connections_refused", { listen, ...told });
      },
    });
    this.#server = createEdgeServer(gateway, () => this.#environments, {
      onAccept: (socket) => this.#accept(socket),
      onConnection: (socket, accepted, answer) => {
        const connection = new ServerConnection(socket, this);
        accepted.http = connection;
        if (answer !== undefined) connection.hangUp(answer);
      },
    });
  }

  /**
   * Rejects with Node's own error if the address is not available, because the caller knows the
   * setting to name. Port 0 takes any free port.
   */
  async listen(): Promise<void> {
    const { host, port } = this.#address;
    await new Promise<void>((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen({ host, port }, () => resolve());
    });
    this.#port = (this.#server.address() as AddressInfo).port;
    this.#timeouts.start();
    // Delayed, so that it is logged after the line that says that everything is serving.
    const tell = () => {
      if (!this.#server.listening) return;
      warnOfFileLimit(this.#environments, this.#gateway, this.#filesMax);
    };
    setTimeout(tell, TELL_LIMIT_MS).unref();
  }

  /** The same after the listener has closed. */
  get url(): string {
    const scheme = this.#environments[0] === undefined ? "http" : schemeOf(this.#environments[0]);
    return `${scheme}://${formatHostPort({ host: this.#address.host, port: this.#port })}`;
  }

  /** The number of exchanges in progress, tunnels included. */
  active(): number {
    return this.#timeouts.active;
  }

  charges(): OpenCharge[] {
    return this.#timeouts.charges();
  }

  connections(): number {
    return this.#connections.size;
  }

  tunnels(): number {
    return this.#tunnels.size;
  }

  /** Replaces the environments, with their limits and certificates, for what comes later. */
  serve({ environments, filesMax }: ListenerEnvironments): void {
    this.#environments = environments;
    this.#filesMax = filesMax;
    this.limits = serverLimits(environments);
    this.#connections.limits = tableLimits(environments, this.#gateway, filesMax);
    renewCertificate(this.#server, environments);
  }

  cut(): void {
    this.#timeouts.cut();
    this.#connections.endAll();
  }

  /**
   * Waits until no exchange is in progress or has begun to arrive, or the deadline passes. Then ends
   * every connection.
   */
  async close(deadlineMs: number): Promise<void> {
    if (this.#server.listening) this.#server.close();
    this.#connections.keepAhead();
    await this.#timeouts.waitUntilIdle(deadlineMs, () => this.#connections.awaitsKept());
    if (this.#tunnels.size > 0) {
      this.#timeouts.cut(({ arrival }) => arrival.upgrade === undefined);
      this.#tunnels.closeAll(1001, "the gateway is going away");
      await this.#timeouts.waitUntilIdle(FAREWELL_MS);
    }
    this.cut();
    // Every exchange writes its log entry before anything else ends: a charge without an entry
    // breaks the law (docs/reference/http.md#law).
    await this.#timeouts.waitUntilIdle(CUT_MS);
    this.#timeouts.stop();
  }

  // Called by each connection.

  onRequest(
    request: IncomingRequest,
    response: ResponseWriter,
    connection: ServerConnection,
  ): void {
    const { memory = "enough", isTrusted } = this.#gateway;
    const nowMs = this.elapsed();
    const beganMs = connection.headBeganMs ?? nowMs;
    const peer = normalizeAddress(connection.socket.remoteAddress);
    const upgrade = upgradeOf(request, this.#tunnels);
    const arrival = {
      id: randomUUID(),
      beganMs,
      startedMs: nowMs,
      onlyEnvironment: this.#environments.length === 1 ? this.#environments[0] : undefined,
      peer,
      client: clientOf(request, peer, isTrusted),
      upgrade,
      // The client may have sent its first frames ahead, and they are no requests.
      closesConnection: memory !== "enough" || upgrade !== undefined,
      span: this.#gateway.telemetry?.tracing?.begin(
        request.rawHeaders,
        nowMs - beganMs,
        this.#environments[0]?.foreignKeys,
      ),
    };
    const exchange = new Exchange({ request, response, connection }, arrival, this.#onEnd);
    this.#timeouts.add(exchange);
    try {
      handle(this.#gateway, this.#environments, exchange)?.catch((error: unknown) => {
        unexpected(this.#gateway, exchange, error);
      });
    } catch (error) {
      unexpected(this.#gateway, exchange, error);
    }
  }

  onRequestError({ error }: IncomingRequest, { listener }: ResponseWriter): void {
    if (error === undefined || !(listener instanceof Exchange)) return;
    listener.onRequestError({ code: refusalCodeFor(error), why: BODY_REASONS[error] });
  }

  onLinger(connection: ServerConnection): void {
    this.#lingering.add(connection);
    connection.socket.once("close", () => this.#lingering.delete(connection));
    if (this.#lingering.size <= LINGERING_MAX) return;
    const [oldest] = this.#lingering;
    if (oldest === undefined) return;
    this.#lingering.delete(oldest);
    oldest.socket.destroy();
  }

  #accept(socket: Socket): OpenConnection | undefined {
    const { elapsed, isTrusted } = this.#gateway;
    const peer = normalizeAddress(socket.remoteAddress);
    return this.#connections.take(socket, isTrusted(peer) ? undefined : peer, elapsed());
  }

  readonly #onEnd = (exchange: Exchange): void => {
    exchange.end(() => this.#tell(exchange));
  };

  #tell(exchange: Exchange): void {
    this.#timeouts.delete(exchange);
    const { elapsed, onRequest } = this.#gateway;
    const endedMs = elapsed();
    const charges = meterCharges(exchange);
    const entry = accessLogEntry(exchange, endedMs, charges);
    onRequest(entry, exchange);
    settleMeters(this.#gateway, exchange, charges);
    if (entry.decision === "admitted") exchange.connection.usedMs = endedMs;
    const { environment, found, caller, arrival, head } = exchange;
    arrival.span?.end(entry, {
      scheme: schemeOf(environment ?? (this.#environments[0] as Environment)),
      // A span never holds a key, and clients put keys in any field.
      host:
        head !== undefined && containsKey(head.host, environment?.foreignKeys)
          ? undefined
          : head?.host,
      version: head?.version,
    });
    const operation = found?.operation;
    if (operation?.lifecycle.deprecated && environment !== undefined && caller !== undefined) {
      const { method, template: route } = operation;
      this.#gateway.onDeprecated?.(
        { environment: environment.name, method, route },
        caller.account,
        entry.decidedAt,
      );
    }
  }
}

const LINGERING_MAX = 256;
const TELL_LIMIT_MS = 1_000;
/** The time for cut exchanges to end: a pending decision is waited for. */
const CUT_MS = 500;
/** The time for the close frames of tunnels to arrive: a little more than the lingering time. */
const FAREWELL_MS = 1_200;

/**
 * Judges a WebSocket handshake; undefined if the request is none. A handshake that arrived before
 * an earlier request of its connection was answered is refused, because its sender cannot know what
 * it would be upgrading (docs/reference/edge.md#upgrade).
 */
function upgradeOf(request: IncomingRequest, tunnels: TunnelRegistry): Result<Upgrade> | undefined {
  const handshake = validateHandshake(request);
  if (!handshake?.ok) return handshake;
  if (request.pipelined) return refuse("bad_request", "an upgrade behind an unanswered request");
  return accept({ nonce: handshake.value.key, tunnels });
}

function clientOf(request: IncomingRequest, peer: string, isTrusted: AddressMatcher): string {
  if (!isTrusted(peer)) return peer;
  const told = fieldValues(request.rawHeaders, "x-forwarded-for");
  return clientAddress(peer, told.length === 0 ? undefined : told.join(", "), isTrusted);
}

function unexpected(gateway: GatewayContext, exchange: Exchange, error: unknown): void {
  const why = error instanceof Error ? (error.stack ?? error.message) : String(error);
  gateway.log.error("request_failed", { id: exchange.id, error: why });
  try {
    const sending = sendRefusal(gateway, exchange, { code: "internal_error" });
    sending?.catch(() => exchange.socket.destroy());
  } catch {
    exchange.socket.destroy();
  }
}
