import { lastClosedDay } from "../../../core/quota/days.ts";
import { accountId, parseAccountId } from "../account-ref.ts";
import type { AcknowledgedUsage, UsageMark, UsageMarks } from "../usage-marks.ts";

/** The marks of the only gateway of a memory store: a part of its notes. */
export class MemoryUsageMarks implements UsageMarks {
  readonly #now: () => number;
  readonly #days = new Map<string, number>();
  isChanged = false;

  /** `now` is the clock of the store, in Unix milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  load(acknowledged: readonly AcknowledgedUsage[]): void {
    for (const { accountRef, day } of acknowledged) this.#days.set(accountId(accountRef), day);
  }

  /** All marks, to be written. They are unchanged from now on. */
  take(): readonly AcknowledgedUsage[] {
    this.isChanged = false;
    return [...this.#days].map(([id, day]) => ({ accountRef: parseAccountId(id), day }));
  }

  async read(
    accountRefs: readonly AcknowledgedUsage["accountRef"][],
  ): Promise<readonly UsageMark[]> {
    const closedDay = lastClosedDay(this.#now());
    return accountRefs.map((accountRef) => ({
      day: this.#days.get(accountId(accountRef)),
      closedDay,
    }));
  }

  async raise(acknowledged: readonly AcknowledgedUsage[]): Promise<void> {
    for (const { accountRef, day } of acknowledged) {
      const id = accountId(accountRef);
      if (day <= (this.#days.get(id) ?? Number.NEGATIVE_INFINITY)) continue;
      this.#days.set(id, day);
      this.isChanged = true;
    }
  }

  /** The gateway is the only one. */
  async claim(): Promise<boolean> {
    return true;
  }

  async release(): Promise<void> {}
}
