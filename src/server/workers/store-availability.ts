import type { Log } from "../../telemetry/log/log.ts";

/** An event about the store, as a worker reported it to the supervisor. */
export type StoreAvailabilityEvent = {
  readonly kind: "store_away" | "store_back";
  readonly details: Readonly<Record<string, unknown>>;
};

/** The name of the only part of a store that is no Cluster. */
const WHOLE = "whole";

/**
 * The store as all processes of a gateway see it. It is unreachable as soon as one process loses
 * it, and back when the last one has it back. On a Cluster that holds for each bucket. Each change
 * is logged once (docs/reference/events.md#kinds).
 */
export class StoreAvailability {
  readonly #log: Pick<Log, "error" | "info">;
  readonly #parts = new Map<string, PartAvailability>();
  #accountsCharged = 0;

  constructor(log: Pick<Log, "error" | "info">) {
    this.#log = log;
  }

  /** `worker` is the number of the process. */
  note(worker: number, { kind, details }: StoreAvailabilityEvent): void {
    const buckets = String(details.buckets ?? WHOLE).split(",");
    if (kind === "store_away") {
      const lost = buckets.filter((bucket) => !this.#part(bucket).isAway);
      for (const bucket of buckets) this.#part(bucket).away.add(worker);
      if (lost.length > 0) this.#log.error(kind, { ...details, ...named(lost) });
    } else {
      const found = buckets.filter((bucket) => this.#part(bucket).away.delete(worker));
      if (found.length === 0) return;
      this.#accountsCharged += Number(details.accountsCharged);
      for (const bucket of found) this.#part(bucket).endedWithout = 0;
      this.#tellBack(found.filter((bucket) => !this.#part(bucket).isAway));
    }
  }

  /** Called when the status of a process says that it has the store. */
  reached(worker: number): void {
    const found = [...this.#parts].filter(([, { away, endedWithout }]) => {
      return endedWithout > 0 && worker > endedWithout && !away.has(worker);
    });
    for (const [, part] of found) part.endedWithout = 0;
    this.#tellBack(found.filter(([, part]) => !part.isAway).map(([bucket]) => bucket));
  }

  /** Called when a process has ended. */
  ended(worker: number): void {
    for (const part of this.#parts.values()) {
      if (part.away.delete(worker)) part.endedWithout = Math.max(part.endedWithout, worker);
    }
  }

  #part(bucket: string): PartAvailability {
    const part = this.#parts.get(bucket) ?? new PartAvailability();
    this.#parts.set(bucket, part);
    return part;
  }

  #tellBack(buckets: readonly string[]): void {
    if (buckets.length === 0) return;
    this.#log.info("store_back", { accountsCharged: this.#accountsCharged, ...named(buckets) });
    this.#accountsCharged = 0;
  }
}

class PartAvailability {
  /** The numbers of the processes that have lost it. */
  readonly away = new Set<number>();
  /**
   * The highest number of a process that ended while the store was unreachable for it. Its end
   * brings no store back: a process that started later has to reach the store. 0 if there is none.
   */
  endedWithout = 0;

  get isAway(): boolean {
    return this.away.size > 0 || this.endedWithout > 0;
  }
}

/** The member of the log that names the buckets of a Cluster. */
function named(buckets: readonly string[]): { readonly buckets?: string } {
  if (buckets[0] === WHOLE) return {};
  return { buckets: buckets.toSorted((a, b) => Number(a) - Number(b)).join() };
}
