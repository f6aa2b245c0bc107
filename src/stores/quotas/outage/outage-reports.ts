import type { Reporter } from "../../../telemetry/log/log.ts";
import { lacksReason, type StoreFailure } from "../../redis/store-failure.ts";
import type { FailurePolicy } from "../quota-store.ts";
import type { QuotaClient } from "../redis/quota-client.ts";

/** An outage by the failure that began it, and the buckets that tripped for it. */
type Outage = { readonly began: StoreFailure; readonly buckets: Set<number> };

type OutageReportsInputs = {
  readonly report: Reporter;
  readonly link: QuotaClient["link"];
  readonly mode: () => FailurePolicy["onStoreFailure"];
  /** The units of all accounts that were forgotten so far, because they were too many. */
  readonly lostUnits: () => number;
};

/** Logs outages of the store: each once when it begins, each bucket once when it is back. */
export class OutageReports {
  readonly #inputs: OutageReportsInputs;
  /** The outage of a Cluster for which the other buckets are probed now. */
  #probing: Outage | undefined;
  /**
   * An outage that began with a lost connection. It is told after the next probe, when the link
   * knows what keeps a new one from being made.
   */
  #untold: StoreFailure | undefined;
  /** Buckets that are back, which no line tells yet, with the accounts that were charged. */
  readonly #back = new Map<number, number>();
  /** Lost units that lines have told. */
  #lostTold = 0;

  constructor(inputs: OutageReportsInputs) {
    this.#inputs = inputs;
  }

  /**
   * Called when the breaker of a bucket has tripped. Returns the outage if the other buckets are to be
   * probed for it before `tellOutage`.
   */
  onTrip(bucket: number, began: StoreFailure): Outage | undefined {
    if (this.#back.has(bucket)) this.tellBack();
    if (this.#probing !== undefined) {
      this.#probing.buckets.add(bucket);
      return undefined;
    }
    const outage = { began, buckets: new Set([bucket]) };
    if (this.#inputs.link.clustered) {
      this.#probing = outage;
      return outage;
    }
    if (lacksReason(began)) this.#untold = began;
    else this.#tellAway(outage);
    return undefined;
  }

  /** Logs an outage that `onTrip` returned, once. */
  tellOutage(outage: Outage): void {
    if (this.#probing !== outage) return;
    this.#probing = undefined;
    this.#tellAway(outage);
  }

  /** Called when the link knows why it has no connection: logs the outage that began by losing one. */
  tellUntold(): void {
    const began = this.#untold;
    if (began === undefined) return;
    this.#untold = undefined;
    const way = this.#inputs.link.health();
    this.#tellAway({ began: way.ok ? began : way.failure, buckets: new Set([0]) });
  }

  /** Called when a bucket is back. `tellBack` logs it, with others whose probes end soon. */
  onBack(bucket: number, accountsCharged: number): void {
    this.#back.set(bucket, accountsCharged);
  }

  /** Logs which buckets are back. One may be back while others are still probed for its outage. */
  tellBack(): void {
    if (this.#back.size === 0) return;
    const buckets = [...this.#back.keys()];
    const accountsCharged = [...this.#back.values()].reduce((sum, accounts) => sum + accounts, 0);
    this.#back.clear();
    const outage = this.#probing;
    if (outage !== undefined && buckets.some((bucket) => outage.buckets.has(bucket)))
      this.tellOutage(outage);
    this.tellForgotten();
    this.#inputs.report("info", "store_back", { accountsCharged, ...this.#named(buckets) });
  }

  /** Logs the units of accounts that were forgotten since the last time. */
  tellForgotten(): void {
    const units = this.#inputs.lostUnits() - this.#lostTold;
    this.#lostTold += units;
    if (units > 0) this.#inputs.report("error", "charges_lost", { units });
  }

  #tellAway({ began: { code, message: why }, buckets }: Outage): void {
    const { report, mode } = this.#inputs;
    report("error", "store_away", { code, why, mode: mode(), ...this.#named([...buckets]) });
  }

  /** The member of the log that says which breakers of a Cluster are meant. */
  #named(buckets: readonly number[]) {
    const { clustered } = this.#inputs.link;
    return clustered ? { buckets: buckets.toSorted((a, b) => a - b).join() } : {};
  }
}
