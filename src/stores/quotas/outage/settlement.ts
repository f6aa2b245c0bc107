import { toStoreFailure, withTimeout } from "../../redis/store-failure.ts";
import { CALL_ACCOUNTS_MAX } from "../batch/call-queue.ts";
import type { DecisionCache } from "../batch/decision-cache.ts";
import type { UncertainCharge } from "../outage-handler.ts";
import { isAddressAccount } from "../quota-store.ts";
import { accountScript } from "../redis/account-scripts.ts";
import type { QuotaClient } from "../redis/quota-client.ts";
import { counterField } from "../redis/window-fields.ts";
import { type AccountDebt, type Debts, debtUnits } from "./debts.ts";

export type SettlementOptions = {
  readonly shared: QuotaClient;
  readonly debts: Debts;
  readonly answers: Pick<DecisionCache, "learnCounts">;
  /** Told of units that may have been charged twice. */
  readonly onUncertain: (charges: readonly UncertainCharge[]) => void;
};

/**
 * Charges the store what was admitted without it, once (docs/reference/store.md#late-charges). The
 * reply to an abandoned call may still arrive and say that the call ran: nothing
 * is charged before that is known. So a slow answer charges no unit twice; one that was lost with
 * its connection may (docs/reference/store.md#uncertain-charges).
 */
export class DebtSettlement {
  readonly #options: SettlementOptions;
  readonly #unanswered = new Set<Promise<void>>();
  #settling: Promise<number> | undefined;

  constructor(options: SettlementOptions) {
    this.#options = options;
  }

  get isUnderWay(): boolean {
    return this.#settling !== undefined;
  }

  /**
   * Nobody waits any more for a call. `answered` settles once it has been seen to that what ran is
   * not owed, or when the answer is known to be lost; it does not reject.
   */
  onCallTimeout(answered: Promise<void>): void {
    this.#unanswered.add(answered);
    void answered.then(() => this.#unanswered.delete(answered));
  }

  /** Charges what is owed; returns of how many accounts. Rejects where there was no answer. */
  settle(timeoutMs: number): Promise<number> {
    this.#settling ??= this.#chargeAll(performance.now() + timeoutMs).finally(() => {
      this.#settling = undefined;
    });
    return this.#settling;
  }

  /** As many accounts in a call as fit. */
  async #chargeAll(giveUpMs: number): Promise<number> {
    while (this.#unanswered.size > 0) await inTime(Promise.all(this.#unanswered), giveUpMs);
    const { debts } = this.#options;
    const owed = debts.take();
    for (let i = 0; i < owed.length; i += CALL_ACCOUNTS_MAX) {
      try {
        await this.#charge(owed.slice(i, i + CALL_ACCOUNTS_MAX), giveUpMs);
      } catch (error) {
        debts.restore(owed.slice(i + CALL_ACCOUNTS_MAX));
        throw error;
      }
    }
    return owed.length;
  }

  /** A call without an answer counts as not run: what it would have charged is owed again. */
  async #charge(batch: readonly AccountDebt[], giveUpMs: number): Promise<void> {
    const { shared, debts } = this.#options;
    const reply = chargeLate(shared, batch, giveUpMs);
    try {
      this.#learn(batch, await inTime(reply, giveUpMs));
    } catch (error) {
      debts.restore(batch);
      const failure = toStoreFailure(error);
      const tell = (later: unknown) => {
        const { code, executed } = toStoreFailure(later);
        // The script uses every other right before it charges anything.
        if (code === "NOPERM") return;
        if (executed === "unknown") this.#tellUncertain(batch.map(chargeOf));
      };
      if (failure.code !== "late") tell(failure);
      else this.onCallTimeout(reply.then((late) => this.#chargedLate(batch, late), tell));
      throw error;
    }
  }

  /** The charge had run, though nobody waited for its answer any more. */
  #chargedLate(batch: readonly AccountDebt[], reply: LateCharged): void {
    this.#learn(batch, reply);
    const { debts } = this.#options;
    this.#tellUncertain(batch.map((owed) => ({ name: owed.name, units: debts.release(owed) })));
  }

  #learn(batch: readonly AccountDebt[], { nowMs, counts }: LateCharged): void {
    for (const [i, { name, windows }] of batch.entries()) {
      const totals = windows.flatMap(({ counter, startMs }, j) => {
        const used = counts[i]?.[j];
        return used === undefined ? [] : [{ counter, startMs, used }];
      });
      this.#options.answers.learnCounts(name, totals, nowMs);
    }
  }

  #tellUncertain(charges: readonly UncertainCharge[]): void {
    const some = charges.filter(({ units }) => units > 0);
    if (some.length > 0) this.#options.onUncertain(some);
  }
}

function inTime<T>(answer: Promise<T>, giveUpMs: number): Promise<T> {
  return withTimeout(answer, Math.max(0, giveUpMs - performance.now()));
}

function chargeOf(owed: AccountDebt): UncertainCharge {
  return { name: owed.name, units: debtUnits(owed) };
}

/** The store's now, and for each window of each account its count, undefined if it is over. */
export type LateCharged = {
  readonly nowMs: number;
  readonly counts: readonly (readonly (number | undefined)[])[];
};

const NOTHING = { requests: 0, units: 0 };
const LATE_CHARGE = accountScript("history", "late-charge");

/**
 * Charges accounts of one call what they owe, each unit to the window that it was admitted in
 * (docs/reference/store.md#late-charges); a window that is over counts for nothing any more. Nothing
 * is charged where the store comes to the call after `giveUpMs` on performance.now(). Gives, for each
 * counter of each account in order, its count then, or undefined where the window is over. Rejects
 * with StoreFailure.
 */
export async function chargeLate(
  { runOn, keyOf, historyMs = 0 }: Pick<QuotaClient, "runOn" | "keyOf" | "historyMs">,
  owed: readonly AccountDebt[],
  giveUpMs: number,
): Promise<LateCharged> {
  const keys = owed.map(({ name }) => keyOf(name));
  const texts = owed.map(({ name, windows, admitted }) => {
    const parts = windows.map((one) => `${counterField(one.counter)} ${one.startMs} ${one.units}`);
    const { requests, units: charged } = isAddressAccount(name) ? NOTHING : admitted;
    return [requests, charged, ...parts].join(" ");
  });
  const args = [historyMs, ...texts];
  const reply = (await runOn(LATE_CHARGE, keys, args, giveUpMs)) as number[];
  let at = 0;
  const nowMs = reply[at++] as number;
  const counts = owed.map(({ windows }) => {
    return windows.map(() => {
      const count = reply[at++] as number;
      return count < 0 ? undefined : count;
    });
  });
  return { nowMs, counts };
}
