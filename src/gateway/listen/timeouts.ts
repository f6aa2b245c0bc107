import { afterPoll } from "../../base/event-loop.ts";
import type { EdgeLimits } from "../../core/http/edge-limits.ts";
import type { OpenCharge } from "../../telemetry/history/diagnostics.ts";
import { type Environment, type GatewayContext, loosestLimits } from "../exchange/environment.ts";
import type { Exchange, WaitKind } from "../exchange/exchange.ts";
import { meterCharges } from "../exchange/metered-answer.ts";

const SWEEP_MS = 100;

/**
 * Ends exchanges that take too long. One timer serves all exchanges of a listener, because a timer
 * or a signal for each request costs more than checking every exchange ten times a second.
 */
export class Timeouts {
  readonly #gateway: GatewayContext;
  readonly #environments: () => readonly Environment[];
  readonly #onTick: (nowMs: number) => void;
  /**
   * Each exchange knows its index here. This is not a Set, because a Set that grows and shrinks
   * leaves its old tables behind with everything they held, and the collector moves them all to the
   * old space (a fifth of the CPU).
   */
  readonly #exchanges: Exchange[] = [];
  #timer: NodeJS.Timeout | undefined;
  #whenIdle: (() => void) | undefined;

  /**
   * `environments` are those of the listener. `onTick` is called ten times a second with the time,
   * for other deadlines.
   */
  constructor(
    gateway: GatewayContext,
    environments: () => readonly Environment[],
    onTick: (nowMs: number) => void,
  ) {
    this.#gateway = gateway;
    this.#environments = environments;
    this.#onTick = onTick;
  }

  get active(): number {
    return this.#exchanges.length;
  }

  /** The charged requests in progress. Their log entries are written when they end. */
  charges(): OpenCharge[] {
    return this.#exchanges.flatMap((exchange) => {
      const { environment, caller, decision } = exchange;
      if (environment === undefined || caller === undefined || decision === undefined) return [];
      const { charged: units, decidedMs: decidedAt, holds } = decision;
      if (units === 0 && holds === undefined) return [];
      const terms = { plan: caller.plan, config: environment.config };
      const { account } = caller;
      const open = { account, environment: environment.name, units, decidedAt, ...terms };
      if (holds === undefined) return [open];
      const meters = exchange.isSettled
        ? meterCharges(exchange).map(({ name, units: used }) => [name, used])
        : holds.holds.meters.map(({ name, hold }) => [name, hold]);
      return [{ ...open, meters: Object.fromEntries(meters) }];
    });
  }

  start(): void {
    this.#timer = setInterval(() => afterPoll(() => this.#sweep()), SWEEP_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  add(exchange: Exchange): void {
    exchange.setTimeoutSlot(this.#exchanges.push(exchange) - 1);
  }

  delete(exchange: Exchange): void {
    const place = exchange.timeoutsPlace;
    if (place === -1) return;
    exchange.setTimeoutSlot(-1);
    const last = this.#exchanges.pop() as Exchange;
    if (last !== exchange) {
      this.#exchanges[place] = last;
      last.setTimeoutSlot(place);
    }
    if (this.#exchanges.length === 0) this.#whenIdle?.();
  }

  /** Destroys the connections of these exchanges in progress, because the gateway ends. */
  cut(isCut: (exchange: Exchange) => boolean = () => true): void {
    for (const exchange of this.#exchanges.filter(isCut)) exchange.cut("the gateway is going away");
  }

  /**
   * Resolves when no exchange is in progress and none is `awaited`, or after `deadlineMs`. The end of
   * one may begin the next one, which the client had sent ahead.
   */
  async waitUntilIdle(deadlineMs: number, awaited = () => false): Promise<void> {
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      this.#whenIdle?.();
    }, deadlineMs);
    while ((this.#exchanges.length > 0 || awaited()) && !isLate) {
      await new Promise<void>((resolve) => {
        this.#whenIdle = resolve;
      });
    }
    clearTimeout(timer);
  }

  #sweep(): void {
    const nowMs = this.#gateway.elapsed();
    this.#onTick(nowMs);
    // An awaited request may have ended without an exchange.
    if (this.#exchanges.length === 0) this.#whenIdle?.();
    // A request that was refused before its environment was known has the limits of all.
    const loosest = loosestLimits(this.#environments());
    // Goes from the end: an exchange that leaves is replaced by one that was checked already.
    for (const exchange of this.#exchanges.toReversed()) {
      const limits = (exchange.route?.service ?? exchange.environment)?.limits ?? loosest;
      exchange.forwarding?.onTick?.(nowMs);
      if (exchange.response.ended) exchange.cutSlowReader(limits.idleTimeoutMs, nowMs);
      else if (nowMs - exchange.progressMs > limitMs(exchange.waiting, limits)) {
        exchange.forwarding?.onTimeout();
      }
    }
  }
}

function limitMs(waiting: WaitKind, limits: EdgeLimits): number {
  switch (waiting) {
    case "connection":
    case "answer":
      return limits.responseTimeoutMs;
    case "upload":
    case "download":
    case "reader":
      return limits.idleTimeoutMs;
    case "tunnel":
      return limits.tunnelIdleMs;
    case "nothing":
      return Number.POSITIVE_INFINITY;
  }
}
