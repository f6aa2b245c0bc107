import type { Log } from "../../telemetry/log/log.ts";

/** An event about the store, as a worker reported it to the supervisor. */
export type StoreAvailabilityEvent = {
  readonly kind: "store_away" | "store_back";
  readonly details: Readonly<Record<string, unknown>>;
};

/**
 * The store as all processes of a gateway see it. It is unreachable as soon as one process loses
 * it, and back when the last one has it back. Each change is logged once
 * (docs/reference/events.md#kinds).
 */
export class StoreAvailability {
  readonly #log: Pick<Log, "error" | "info">;
  readonly #away = new Set<number>();
  /**
   * The highest number of a process that ended while the store was unreachable for it. Its end
   * brings no store back: a process that started later has to reach the store. 0 if there is none.
   */
  #endedWithout = 0;
  #accountsCharged = 0;

  constructor(log: Pick<Log, "error" | "info">) {
    this.#log = log;
  }

  /** `worker` is the number of the process. */
  note(worker: number, { kind, details }: StoreAvailabilityEvent): void {
    if (kind === "store_away") {
      if (!this.#isAway) this.#log.error(kind, details);
      this.#away.add(worker);
    } else {
      if (!this.#away.delete(worker)) return;
      this.#accountsCharged += Number(details.accountsCharged);
      this.#endedWithout = 0;
      this.#tellBack();
    }
  }

  /** Called when the status of a process says that it has the store. */
  reached(worker: number): void {
    if (this.#endedWithout === 0 || worker <= this.#endedWithout) return;
    if (this.#away.has(worker)) return;
    this.#endedWithout = 0;
    this.#tellBack();
  }

  /** Called when a process has ended. */
  ended(worker: number): void {
    if (this.#away.delete(worker)) this.#endedWithout = Math.max(this.#endedWithout, worker);
  }

  get #isAway(): boolean {
    return this.#away.size > 0 || this.#endedWithout > 0;
  }

  #tellBack(): void {
    if (this.#isAway) return;
    this.#log.info("store_back", { accountsCharged: this.#accountsCharged });
    this.#accountsCharged = 0;
  }
}
