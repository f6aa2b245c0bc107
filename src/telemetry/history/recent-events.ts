import type { WebhookEvent } from "../log/webhook.ts";
import { BanHistory } from "./ban-history.ts";
import type { BanRecord } from "./ban-records.ts";

/** The last events of a gateway, for people who look them up; older ones are in the log. */
const KEPT_MAX = 200;
/** The number of bans that are remembered for longer. The oldest are dropped first. */
const BANS_MAX = 1_000;

/** `number` counts up from 1, so that a reader can tell new events. */
export type RecentEvent = WebhookEvent & { readonly number: number };

/** Keeps the last 200 events and the last 1,000 bans, the oldest first. */
export class RecentEvents {
  readonly #bans = new BanHistory(BANS_MAX);
  readonly #events: RecentEvent[] = [];
  readonly #listeners = new Set<(event: RecentEvent) => void>();
  #last = 0;

  get last(): number {
    return this.#last;
  }

  add(event: WebhookEvent): void {
    this.#last += 1;
    const numbered = { ...event, number: this.#last };
    this.#events.push(numbered);
    for (const listener of this.#listeners) listener(numbered);
    if (this.#events.length > KEPT_MAX) this.#events.shift();
    this.#bans.event(event);
  }

  /** Calls the listener with each event from now on, until the result is called. */
  onAdd(listener: (event: RecentEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The bans of an account, oldest first. */
  bansOf(owner: Pick<BanRecord, "account" | "environment">): BanRecord[] {
    return this.#bans.of(owner);
  }

  /** The events after the one with this number, if they are still kept. */
  since(number: number): readonly RecentEvent[] {
    const come = this.#last - number;
    return come <= 0 ? [] : this.#events.slice(-come);
  }
}
