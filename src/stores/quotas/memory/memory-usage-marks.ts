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
    for (const { name, day } of acknowledged) this.#days.set(accountId(name), day);
  }

  /** All marks, to be written. They are unchanged from now on. */
  take(): readonly (AcknowledgedUsage["name"] & { readonly day: number })[] {
    this.isChanged = false;
    return [...this.#days].map(([id, day]) => ({ ...parseAccountId(id), day }));
  }

  async read(names: readonly AcknowledgedUsage["name"][]): Promise<readonly UsageMark[]> {
    const closedDay = lastClosedDay(this.#now());
    return names.map((name) => ({ day: this.#days.get(accountId(name)), closedDay }));
  }

  async raise(acknowledged: readonly AcknowledgedUsage[]): Promise<void> {
    for (const { name, day } of acknowledged) {
      const id = accountId(name);
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
