import type { Socket } from "node:net";
import { addressGroup } from "../../core/address.ts";
import type { ServerConnection } from "../../http1/server/server-connection.ts";
import type { TurnedAwayReason } from "../../telemetry/metrics/request-metrics.ts";

export type TableLimits = {
  /** The most connections in all; 0 if the memory is full. */
  readonly connectionsMax: number;
  /** The most connections of one client address (IPv6: a /64); 0 for no limit. */
  readonly perAddressMax: number;
  readonly headersTimeoutMs: number;
};

type TableReport = {
  readonly onTurnedAway: (why: TurnedAwayReason) => void;
  /** Called at most once a minute. `closedIdle` counts the connections closed to make room. */
  readonly tell: (told: ConnectionsRefused) => void;
};

export type ConnectionsRefused = {
  readonly refused: Readonly<Partial<Record<TurnedAwayReason, number>>>;
  readonly closedIdle: number;
  /** The last address that had too many connections. */
  readonly address: string | undefined;
};

type HttpConnection = Pick<
  ServerConnection,
  "usedMs" | "inUse" | "keepAhead" | "awaitsKept" | "tick" | "end"
>;

/** One client connection, from when it is accepted on. */
export type OpenConnection = {
  readonly socket: Socket;
  readonly group: string;
  readonly openedMs: number;
  /** Undefined during a TLS handshake, which must end within `headersTimeout`. */
  http: HttpConnection | undefined;
};

const TELL_EVERY_MS = 60_000;
/** The most idle connections that one scan finds. They are then closed one after the other. */
const IDLE_FOUND_MAX = 64;
/** A scan that found fewer is not repeated for one millisecond per this many connections. */
const LOOKED_AT_PER_MS = 2_000;

/**
 * The connections of a listener, TLS handshakes included (docs/reference/edge.md#connections). If
 * the table is full, the connection that has been idle longest is closed for a new one. Only
 * admitted requests count as use: requests that are answered for free cost their sender nothing and
 * could hold every place forever. All times are on one monotonic clock.
 */
export class ConnectionTable {
  limits: TableLimits;
  readonly #report: TableReport;
  readonly #open = new Set<OpenConnection>();
  readonly #byAddress = new Map<string, number>();
  /** The longest idle connections at the last scan, sorted so that the longest idle is last. */
  #idle: OpenConnection[] = [];
  #lookedMs = Number.NEGATIVE_INFINITY;
  #foundAll = false;
  #refused: Partial<Record<TurnedAwayReason, number>> = {};
  #closedIdle = 0;
  #address: string | undefined;
  #toldMs = Number.NEGATIVE_INFINITY;

  constructor(limits: TableLimits, report: TableReport) {
    this.limits = limits;
    this.#report = report;
  }

  get size(): number {
    return this.#open.size;
  }

  /**
   * Takes a connection that was just accepted, or ends it and returns undefined. `address` is the
   * peer's; it is undefined for a proxy that many clients share.
   */
  take(socket: Socket, address: string | undefined, nowMs: number): OpenConnection | undefined {
    const group = address === undefined ? "" : addressGroup(address);
    const why = this.#whyNot(group, nowMs);
    if (why !== undefined) {
      this.#turnAway(socket, why, address);
      return undefined;
    }
    const connection: OpenConnection = { socket, group, openedMs: nowMs, http: undefined };
    this.#open.add(connection);
    this.#byAddress.set(group, (this.#byAddress.get(group) ?? 0) + 1);
    socket.once("close", () => this.#remove(connection));
    return connection;
  }

  /**
   * Ends handshakes that take too long, has each HTTP connection judge its own deadlines, and reports
   * the connections that were turned away.
   */
  tick(nowMs: number): void {
    const { headersTimeoutMs } = this.limits;
    for (const { http, openedMs, socket } of this.#open) {
      if (http !== undefined) http.tick(nowMs);
      else if (nowMs - openedMs >= headersTimeoutMs) socket.destroy();
    }
    this.#tell(nowMs);
  }

  /** Requests that have begun to arrive by now are served, though later ones are refused. */
  keepAhead(): void {
    for (const { http } of this.#open) http?.keepAhead();
  }

  /** Whether the head of such a request is still arriving. */
  awaitsKept(): boolean {
    for (const { http } of this.#open) if (http?.awaitsKept) return true;
    return false;
  }

  endAll(): void {
    for (const connection of this.#open) end(connection);
  }

  #whyNot(group: string, nowMs: number): TurnedAwayReason | undefined {
    const { connectionsMax, perAddressMax } = this.limits;
    if (connectionsMax === 0) return "memory";
    const ofGroup = group === "" ? 0 : (this.#byAddress.get(group) ?? 0);
    if (perAddressMax > 0 && ofGroup >= perAddressMax) return "address";
    while (this.#open.size >= connectionsMax) {
      if (!this.#makeRoom(nowMs)) return "connections";
    }
    return undefined;
  }

  /** Closes the connection that has been idle longest. Returns false if all are in use. */
  #makeRoom(nowMs: number): boolean {
    for (;;) {
      const idle = this.#idle.pop();
      if (idle === undefined) {
        if (!this.#look(nowMs)) return false;
      } else if (this.#open.has(idle) && isIdle(idle) && usedMs(idle) <= this.#lookedMs) {
        this.#remove(idle);
        this.#closedIdle += 1;
        end(idle);
        return true;
      }
    }
  }

  /**
   * Finds the connections that have been idle longest. It finds several at once, because each scan
   * visits all connections. Scans that find few are rate-limited, because a flood of new
   * connections would otherwise take the CPU.
   */
  #look(nowMs: number): boolean {
    const pauseMs = this.#open.size / LOOKED_AT_PER_MS;
    if (this.#foundAll && nowMs - this.#lookedMs < pauseMs) return false;
    const idle: OpenConnection[] = [];
    this.#foundAll = true;
    for (const connection of this.#open) {
      if (!isIdle(connection)) continue;
      let at = idle.length;
      while (at > 0 && usedMs(idle[at - 1] as OpenConnection) <= usedMs(connection)) at -= 1;
      idle.splice(at, 0, connection);
      if (idle.length <= IDLE_FOUND_MAX) continue;
      idle.shift();
      this.#foundAll = false;
    }
    this.#idle = idle;
    this.#lookedMs = nowMs;
    return idle.length > 0;
  }

  #turnAway(socket: Socket, why: TurnedAwayReason, address: string | undefined): void {
    socket.on("error", ignore);
    socket.destroy();
    this.#refused[why] = (this.#refused[why] ?? 0) + 1;
    if (why === "address") this.#address = address;
    this.#report.onTurnedAway(why);
  }

  #remove(connection: OpenConnection): void {
    if (!this.#open.delete(connection)) return;
    const left = (this.#byAddress.get(connection.group) ?? 1) - 1;
    if (left === 0) this.#byAddress.delete(connection.group);
    else this.#byAddress.set(connection.group, left);
  }

  #tell(nowMs: number): void {
    const isQuiet = this.#closedIdle === 0 && Object.keys(this.#refused).length === 0;
    if (isQuiet || nowMs - this.#toldMs < TELL_EVERY_MS) return;
    this.#toldMs = nowMs;
    const told = { refused: this.#refused, closedIdle: this.#closedIdle, address: this.#address };
    [this.#refused, this.#closedIdle, this.#address] = [{}, 0, undefined];
    this.#report.tell(told);
  }
}

/** When it last brought a request that was admitted; else when it was opened. */
function usedMs({ openedMs, http }: OpenConnection): number {
  return Math.max(openedMs, http?.usedMs ?? 0);
}

/** Whether no response is owed: the client has sent nothing, or only a part of a request. */
function isIdle({ http }: OpenConnection): boolean {
  return http === undefined || !http.inUse;
}

/** In order, unless it has not got past its handshake. */
function end({ http, socket }: OpenConnection): void {
  if (http === undefined) socket.destroy();
  else http.end();
}

function ignore(): void {}
