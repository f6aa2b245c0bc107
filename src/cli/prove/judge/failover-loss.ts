import type { SentRequest } from "../trial/promises.ts";
import { METER, OPERATIONS } from "../trial/workload.ts";
import type { ProofReport } from "./proof-report.ts";

export type FailoverOutcome = NonNullable<ProofReport["failover"]>;

/** A gateway follows a new master within this time, and replication is no further behind. */
const UNREPLICATED_MS = 1_000;

/**
 * Tells the most units that a failover may lose: those that were admitted in its busiest second. The
 * windows of a load fill up in bursts, so the average of the whole load tells less.
 */
export class FailoverLoss {
  readonly #lastSecond: { readonly atMs: number; readonly units: number }[] = [];
  #outcome: Promise<FailoverOutcome> | undefined;
  #units = 0;
  #most = 0;

  /**
   * The most units that this failover may have lost, since `begin` and in the second before it. One
   * of a Cluster that is planned waits for its replica, and loses none.
   */
  mostOf(failover: FailoverOutcome | null, store: string | undefined): number {
    return failover?.ok === true && store === "sentinel" ? this.#most : 0;
  }

  /** Called when the failover begins, in Unix milliseconds, with the promise of its outcome. */
  begin(nowMs: number, outcome: Promise<FailoverOutcome>): void {
    this.#outcome = outcome;
    this.#forget(nowMs);
    this.#most = this.#units;
  }

  /** The outcome of the failover; null if none has begun. */
  async outcome(): Promise<FailoverOutcome | null> {
    return (await this.#outcome) ?? null;
  }

  /** Called with each request of the load. */
  take({ operation, endedMs, response }: SentRequest): void {
    if (response?.status !== 200) return;
    const units = OPERATIONS[operation as keyof typeof OPERATIONS].cost;
    this.#lastSecond.push({ atMs: endedMs, units });
    this.#units += units;
    this.#forget(endedMs);
    this.#most = Math.max(this.#most, this.#units);
  }

  #forget(nowMs: number): void {
    for (let [first] = this.#lastSecond; first !== undefined; [first] = this.#lastSecond) {
      if (first.atMs > nowMs - UNREPLICATED_MS) return;
      this.#units -= first.units;
      this.#lastSecond.shift();
    }
  }
}

type FailoverLosses = Pick<ProofReport, "chargesLost" | "historyLost" | "metersOff">;

/**
 * Names lost units as those of a failover, up to `mostLost` units of the plan, each of which may have
 * held as much of the meter as a request can.
 */
export function excuseFailover<T extends FailoverLosses>(
  charges: T,
  mostLost: number,
): T & { readonly failoverLost: number } {
  const { chargesLost, historyLost, metersOff } = charges;
  return {
    ...charges,
    failoverLost: Math.min(mostLost, Math.max(chargesLost, historyLost)),
    chargesLost: Math.max(0, chargesLost - mostLost),
    historyLost: Math.max(0, historyLost - mostLost),
    metersOff: Math.max(0, metersOff - mostLost * METER.max),
  };
}
