import { dayOf } from "../../../core/quota/days.ts";
import type { Holds, MeterChange } from "../../../core/quota/meters.ts";
import type { AccountRef } from "../account-ref.ts";
import { CALL_ACCOUNTS_MAX } from "../batch/call-queue.ts";
import { type AccountDebt, windowOf } from "./account-debt.ts";

/**
 * Settlements of meters, which go to the store in the turn of the event loop in which they arrive:
 * those of one queue together, ahead of the answer that they belong to and of each later charge. No
 * request waits for them.
 */
export class SettlementQueues {
  readonly #send: (batch: readonly AccountDebt[], queue: number) => Promise<void>;
  #waiting = new Map<number, AccountDebt[]>();
  readonly #sending = new Set<Promise<void>>();

  /** `send` charges up to 256 debts of one queue in a call. It does not reject. */
  constructor(send: (batch: readonly AccountDebt[], queue: number) => Promise<void>) {
    this.#send = send;
  }

  add(queue: number, debt: AccountDebt): void {
    if (this.#waiting.size === 0) setImmediate(() => this.#sendAll());
    const waiting = this.#waiting.get(queue);
    if (waiting === undefined) this.#waiting.set(queue, [debt]);
    else waiting.push(debt);
  }

  /** Takes out the settlements of a queue that were not sent yet. */
  take(queue: number): readonly AccountDebt[] {
    const waiting = this.#waiting.get(queue) ?? [];
    this.#waiting.delete(queue);
    return waiting;
  }

  /** Resolves when all settlements were sent. */
  async finish(): Promise<void> {
    this.#sendAll();
    await Promise.all(this.#sending);
  }

  #sendAll(): void {
    const all = this.#waiting;
    this.#waiting = new Map();
    for (const [queue, waiting] of all) {
      while (waiting.length > 0) {
        const sending = this.#send(waiting.splice(0, CALL_ACCOUNTS_MAX), queue);
        this.#sending.add(sending);
        void sending.then(() => this.#sending.delete(sending));
      }
    }
  }
}

/** The debt of a settlement: the difference between use and hold, of each meter. */
export function settlementDebt(
  accountRef: AccountRef,
  { id, plan, decidedMs: chargedMs }: Pick<Holds, "id" | "plan" | "decidedMs">,
  changes: readonly MeterChange[],
): AccountDebt {
  const day = dayOf(chargedMs);
  return {
    ...{ accountRef, plan, days: [] },
    windows: changes.flatMap(({ units, windows: changed }) => {
      return changed.map((limit) => {
        return { ...windowOf(limit), units, chargedMs, limit, outage: limit.outage };
      });
    }),
    meters: changes.map(({ meter, units }) => ({ day, meter, units, ids: [id] })),
  };
}
