import { setTimeout as sleep } from "node:timers/promises";
import type { DayReport } from "../../../stores/queries/read-history.ts";
import type { LogLine } from "../trial/processes.ts";
import type { SentRequest } from "../trial/promises.ts";
import { METER, PROOF_HISTORY_PATH } from "../trial/workload.ts";

type MeterObservations = {
  /** Requests that may have held units and were not answered. */
  open: number;
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
  /** Requests of an account that a killed gateway may not have settled. */
  readonly unsettledOf: (account: string) => number;
  readonly waitMs: number;
};

/**
 * Judges the units of the meter: those that the backend told must be those that the history has
 * (docs/reference/meters.md#settlement), but for units that lines name, and holds that stand because
 * a gateway was killed.
 */
export class MeterChecker {
  readonly #accounts = new Map<string, MeterObservations>();

  /** Called with each request of the load. */
  take({ account, operation, response }: SentRequest): void {
    if (operation === METER.operation && response === undefined) this.#of(account).open += 1;
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
  async compare(inputs: MeterComparison): Promise<number> {
    const { adminUrl, accounts, usedBy, unsettledOf, waitMs } = inputs;
    const untilMs = Date.now() + waitMs;
    for (;;) {
      const history = await readHistory(adminUrl);
      const off = accounts.reduce((sum, account) => {
        const { open, lacking, surplus } = this.#of(account);
        const lacks = usedBy(account) - (history.get(account) ?? 0);
        const differs = Math.max(lacks - lacking, -lacks - surplus);
        return sum + Math.max(0, differs - (open + unsettledOf(account)) * METER.max);
      }, 0);
      if (off === 0 || Date.now() > untilMs) return off;
      await sleep(100);
    }
  }

  #of(account: string): MeterObservations {
    let seen = this.#accounts.get(account);
    if (seen === undefined) {
      seen = { open: 0, lacking: 0, surplus: 0 };
      this.#accounts.set(account, seen);
    }
    return seen;
  }
}

/** Units of the meter by account, over the days of the proof; none if there is no history. */
async function readHistory(adminUrl: string): Promise<ReadonlyMap<string, number>> {
  const response = await fetch(`${adminUrl}${PROOF_HISTORY_PATH}`);
  const found = new Map<string, number>();
  if (!response.ok) return found;
  for (const { account, meters } of (await response.json()) as DayReport[]) {
    found.set(account, (found.get(account) ?? 0) + (meters?.[METER.name] ?? 0));
  }
  return found;
}
