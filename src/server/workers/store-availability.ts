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
  #accountsCharged = 0;

  constructor(log: Pick<Log, "error" | "info">) {
    this.#log = log;
  }

  /** `worker` is the number of the process. */
  note(worker: number, { kind, details }: StoreAvailabilityEvent): void {
    if (kind === "store_away") {
      if (this.#away.size === 0) this.#log.error(kind, details);
      this.#away.add(worker);
    } else {
      this.#accountsCharged += Number(details.accountsCharged);
      this.ended(worker);
    }
  }

  /** Called when a process has ended. Its replacement reports what it sees itself. */
  ended(worker: number): void {
    if (!this.#away.delete(worker) || this.#away.size > 0) return;
    this.#log.info("store_back", { accountsCharged: this.#accountsCharged });
    this.#accountsCharged = 0;
  }
}
