import type { GatewayDirectory } from "../../stores/quotas/quota-store.ts";
import type { GatewayStatus } from "../../telemetry/gateway-status.ts";
import type { MetricsRecorder } from "../../telemetry/metrics/metrics-recorder.ts";
import type { ReadinessChecks } from "../../telemetry/readiness.ts";
import { GATEWAY_VERSION } from "./identity.ts";

const EVERY_MS = 1_000;
/** Readings before the present one, one each second: rates are averages since the first of them. */
const READINGS_MAX = 6;

type Reading = { readonly atMs: number; readonly requests: number; readonly refusals: number };

type AnnouncerOptions = {
  /** The name of the gateway in the list. */
  readonly name: string;
  readonly gateways: Pick<GatewayDirectory, "announce" | "withdraw">;
  readonly metrics: Pick<MetricsRecorder, "tables" | "configuration">;
  readonly checks: () => ReadinessChecks;
  readonly now: () => number;
};

/**
 * Announces this gateway each second to the gateways that share its store
 * (docs/reference/admin.md#gateways). If the store is unreachable, the next message replaces this
 * one.
 */
export class GatewayAnnouncer {
  readonly #options: AnnouncerOptions;
  readonly #startedMs: number;
  #timer: NodeJS.Timeout | undefined;
  #readings: Reading[] = [];
  #storeMs: number | null = null;
  #telling: Promise<void> | undefined;

  constructor(options: AnnouncerOptions) {
    this.#options = options;
    this.#startedMs = options.now();
  }

  /** Announces the gateway now and each second. */
  start(): void {
    this.#timer = setInterval(() => this.#announce(), EVERY_MS).unref();
    this.#announce();
  }

  /** Announces it, unless the last message has no reply yet. */
  #announce(): void {
    this.#telling ??= this.#tell().finally(() => {
      this.#telling = undefined;
    });
  }

  /** Removes this gateway from the list. Never rejects. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#telling;
    await this.#options.gateways.withdraw(this.#options.name);
  }

  async #tell(): Promise<void> {
    const sentMs = performance.now();
    try {
      const { gateways, name } = this.#options;
      await gateways.announce(name, JSON.stringify(this.#status()));
      this.#storeMs = Math.round((performance.now() - sentMs) * 10) / 10;
    } catch {
      // The store is unreachable: /readyz says so.
    }
  }

  #status(): GatewayStatus {
    const { name, metrics, checks } = this.#options;
    return {
      name,
      version: GATEWAY_VERSION,
      config: metrics.configuration().hash,
      started: Math.floor(this.#startedMs / 1_000),
      ...this.#rates(),
      storeMs: this.#storeMs,
      ...stateOf(checks()),
    };
  }

  #rates(): Pick<GatewayStatus, "requestsPerSecond" | "refusalsPerSecond"> {
    const now = { atMs: performance.now(), ...countRequests(this.#options.metrics) };
    const first = this.#readings[0] ?? now;
    this.#readings = [...this.#readings, now].slice(-READINGS_MAX);
    const seconds = Math.max(1, (now.atMs - first.atMs) / 1_000);
    const rate = (count: number) => Math.round((count / seconds) * 10) / 10;
    return {
      requestsPerSecond: rate(now.requests - first.requests),
      refusalsPerSecond: rate(now.refusals - first.refusals),
    };
  }
}

function countRequests({ tables }: AnnouncerOptions["metrics"]): Omit<Reading, "atMs"> {
  let [requests, refusals] = [0, 0];
  for (const [{ code, source }, { value }] of tables.requests.entries()) {
    requests += value;
    if (source === "gateway" && Number(code) >= 400) refusals += value;
  }
  return { requests, refusals };
}

function stateOf(checks: ReadinessChecks): Pick<GatewayStatus, "state" | "why"> {
  const failing = Object.entries(checks).filter(([, { ok }]) => !ok);
  if (failing.length === 0) return { state: "ready", why: null };
  const why = failing.map(([name, { why: reason = "fails" }]) => `${name}: ${reason}`).join("; ");
  return { state: checks.draining.ok ? "not ready" : "draining", why };
}
