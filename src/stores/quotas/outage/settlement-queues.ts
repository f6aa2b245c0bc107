import { dayOf } from "../../../core/quota/days.ts";
import type { Holds, MeterChange } from "../../../core/quota/meters.ts";
import type { AccountRef } from "../account-ref.ts";
import { CALL_ACCOUNTS_MAX } from "../batch/call-queue.ts";
import { type AccountDebt, windowDebt } from "./account-debt.ts";

type Queue = { waiting: AccountDebt[]; sending: Promise<void> | undefined };

/**
 * Settlements of meters that wait for a call to the store. Each queue has one call in flight, and the
 * next call carries all settlements that arrived during it. No request waits for them.
 */
export class SettlementQueues {
  readonly #send: (batch: readonly AccountDebt[], queue: number) => Promise<void>;
  readonly #queues = new Map<number, Queue>();

  /** `send` charges up to 256 debts of one queue in a call. It does not reject. */
  constructor(send: (batch: readonly AccountDebt[], queue: number) => Promise<void>) {
    this.#send = send;
  }

  add(number: number, debt: AccountDebt): void {
    let queue = this.#queues.get(number);
    if (queue === undefined) {
      queue = { waiting: [], sending: undefined };
      this.#queues.set(number, queue);
    }
    queue.waiting.push(debt);
    queue.sending ??= this.#sendAll(queue, number);
  }

  /** Resolves when all settlements were sent. */
  async finish(): Promise<void> {
    await Promise.all([...this.#queues.values()].map(({ sending }) => sending));
  }

  async #sendAll(queue: Queue, number: number): Promise<void> {
    // Answers that ended in the same turn share a call.
    await new Promise(setImmediate);
    while (queue.waiting.length > 0) {
      await this.#send(queue.waiting.splice(0, CALL_ACCOUNTS_MAX), number);
    }
    queue.sending = undefined;
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
      return changed.map((limit) => ({ ...windowDebt(limit, units), chargedMs, limit }));
    }),
    meters: changes.map(({ meter, units }) => ({ day, meter, units, ids: [id] })),
  };
}
