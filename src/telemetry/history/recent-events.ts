import type { WebhookEvent } from "../log/webhook.ts";

/** The last events of a gateway, for people who look; older ones are in the log. */
const KEPT_MAX = 200;

/** `number` counts up from 1, so that a reader knows which ones are new. */
export type RecentEvent = WebhookEvent & { readonly number: number };

/** Keeps the last 200 events, the oldest first. */
export class RecentEvents {
  #events: RecentEvent[] = [];
  #last = 0;

  get last(): number {
    return this.#last;
  }

  add(event: WebhookEvent): void {
    this.#last += 1;
    this.#events.push({ ...event, number: this.#last });
    if (this.#events.length > KEPT_MAX) this.#events.shift();
  }

  /** Those that came after the one with this number, as far as they are kept. */
  since(number: number): readonly RecentEvent[] {
    const come = this.#last - number;
    return come <= 0 ? [] : this.#events.slice(-come);
  }

  /** Takes all of them out, for another process to add to its own. */
  take(): readonly WebhookEvent[] {
    const events = this.#events.map(({ number: _, ...event }) => event as WebhookEvent);
    this.#events = [];
    return events;
  }
}
