import type { Log } from "../../telemetry/log/log.ts";

/** An event about the store, as one process of several told it to the one that watches. */
export type StoreAvailabilityEvent = {
  readonly kind: "store_away" | "store_back";
  readonly details: Readonly<Record<string, unknown>>;
};

/**
 * The store as all processes of a gateway see it: away with the first of them that lost it, back with
 * the last one, and each told once (docs/reference/events.md#kinds).
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
      this.#accountsCharged += Number(details.accountsCharged ?? 0);
      this.ended(worker);
    }
  }

  /** The process sees nothing any more; the one in its place tells what it sees itself. */
  ended(worker: number): void {
    if (!this.#away.delete(worker) || this.#away.size > 0) return;
    this.#log.info("store_back", { accountsCharged: this.#accountsCharged });
    this.#accountsCharged = 0;
  }
}
