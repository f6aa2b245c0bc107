import { setTimeout as sleep } from "node:timers/promises";
import type { DayReport } from "../../stores/queries/read-history.ts";
import type { LogLine } from "./processes.ts";
import type { SentRequest } from "./promises.ts";
import { METER } from "./workload.ts";

/** Longer than all outages of a proof together. */
const REMEMBERED_MS = 120_000;

type Seen = {
  /** Requests that may have held units and were not answered, or not settled by a killed gateway. */
  open: number;
  /** When the requests that held units ended. */
  endedMs: number[];
  /** Units that the history may lack: lines of gateways name them as never settled. */
  lacking: number;
  /** Units that the history may have too many: never given back, or charged twice, by those lines. */
  surplus: number;
};

export type MeterComparison = {
  /** The admin listener of a gateway. */
  readonly adminUrl: string;
  readonly accounts: readonly string[];
  /** Units that the backend told of an account. */
  readonly usedBy: (account: string) => number;
  readonly waitMs: number;
};

/**
 * Judges the units of the meter: those that the backend told must be those that the history has
 * (docs/reference/meters.md#settlement), but for units that lines name, and holds that stand because
 * a gateway was killed.
 */
export class MeterChecker {
  readonly #accounts = new Map<string, Seen>();

  /** Called with each request of the load. */
  take({ account, operation, endedMs, answer }: SentRequest): void {
    if (operation !== METER.operation) return;
    const seen = this.#of(account);
    if (answer === undefined) seen.open += 1;
    else if (answer.status === 200) {
      if ((seen.endedMs[0] ?? endedMs) < endedMs - REMEMBERED_MS) seen.endedMs.shift();
      seen.endedMs.push(endedMs);
    }
  }

  /** Called when a gateway is killed that has settled what ended before `sinceMs`, in Unix milliseconds. */
  killed(sinceMs: number): void {
    for (const seen of this.#accounts.values()) {
      seen.open += seen.endedMs.filter((ms) => ms >= sinceMs).length;
    }
  }

  /** Called with each line of a gateway. */
  onLogLine({ msg, account, accounts, units }: LogLine): void {
    if (msg === "settlement_lost") {
      const seen = this.#of(String(account));
      const lost = Number(units);
      seen.lacking += Math.max(0, lost);
      seen.surplus += Math.max(0, -lost);
    }
    if (msg !== "charges_uncertain") return;
    for (const [, name = "", twice] of String(accounts).matchAll(/proof:([^\s#]+)#\S+ (\d+)/g)) {
      this.#of(name).surplus += Number(twice);
    }
  }

  /** Units by which the history is off, beyond those that may be. Settlements get `waitMs`. */
  async compare({ adminUrl, accounts, usedBy, waitMs }: MeterComparison): Promise<number> {
    const untilMs = Date.now() + waitMs;
    for (;;) {
      const history = await readHistory(adminUrl);
      const off = accounts.reduce((sum, account) => {
        const { open, lacking, surplus } = this.#of(account);
        const lacks = usedBy(account) - (history.get(account) ?? 0);
        const differs = Math.max(lacks - lacking, -lacks - surplus);
        return sum + Math.max(0, differs - open * METER.max);
      }, 0);
      if (off === 0 || Date.now() > untilMs) return off;
      await sleep(100);
    }
  }

  #of(account: string): Seen {
    let seen = this.#accounts.get(account);
    if (seen === undefined) {
      seen = { open: 0, endedMs: [], lacking: 0, surplus: 0 };
      this.#accounts.set(account, seen);
    }
    return seen;
  }
}

/** Units of the meter by account, over the last two days; none if there is no history. */
async function readHistory(adminUrl: string): Promise<ReadonlyMap<string, number>> {
  const response = await fetch(`${adminUrl}/api/history?days=2&limit=10000`);
  const found = new Map<string, number>();
  if (!response.ok) return found;
  for (const { account, meters } of (await response.json()) as DayReport[]) {
    found.set(account, (found.get(account) ?? 0) + (meters?.[METER.name] ?? 0));
  }
  return found;
}
