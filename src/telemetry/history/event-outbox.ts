import type { WebhookEvent } from "../log/webhook.ts";

/** More than a process reports between two takings, so that it bounds memory and nothing else. */
const HELD_MAX = 10_000;

/** The events of a process until the process that sends and shows those of the gateway takes them. */
export class EventOutbox {
  #events: WebhookEvent[] = [];
  #dropped = 0;

  /** The number of events dropped so far, because too many were held. */
  get dropped(): number {
    return this.#dropped;
  }

  add(event: WebhookEvent): void {
    if (this.#events.length < HELD_MAX) this.#events.push(event);
    else this.#dropped += 1;
  }

  /** Removes and returns all events. */
  take(): readonly WebhookEvent[] {
    const events = this.#events;
    this.#events = [];
    return events;
  }
}
