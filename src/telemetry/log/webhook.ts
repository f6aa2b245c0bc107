import { randomUUID } from "node:crypto";
import type { EventKind } from "./events.ts";
import { isSameReceiver, postSigned, type Receiver, retryPauseMs } from "./signed-post.ts";

export type WebhookSettings = Receiver & {
  /** The kinds that are sent; `all` means every kind. */
  readonly kinds: readonly string[];
};

/** One event as it is sent. `time` is in Unix milliseconds. */
export type WebhookEvent = Readonly<Record<string, unknown>> & {
  readonly kind: EventKind;
  readonly time: number;
};

const BATCH_MAX = 100;
const HELD_MAX = 10_000;
/** Events within this time of each other are sent together. */
const GATHER_MS = 100;
const GIVE_UP_MS = 24 * 3_600_000;

/** Each retry sends the same bytes under the same id, so that a receiver can recognize repeats. */
type Message = {
  readonly id: string;
  readonly body: string;
  readonly events: number;
  readonly madeMs: number;
};

/**
 * Sends events as signed messages (Standard Webhooks 1.0), at least once and in order, independent
 * of requests. An unreachable or slow receiver costs nothing but memory, which is bounded
 * (docs/reference/events.md#webhooks).
 */
export class Webhook {
  #settings: WebhookSettings | undefined;
  readonly #now: () => number;
  #waiting: WebhookEvent[] = [];
  #message: Message | undefined;
  #tries = 0;
  #timer: NodeJS.Timeout | undefined;
  /** The call under way. */
  #call: { readonly receiver: Receiver; readonly cut: AbortController } | undefined;
  #closed = false;
  #dropped = 0;
  readonly #onChange: (why: string | undefined) => void;
  #isFailing = false;

  /**
   * `now` is the wall clock, in Unix milliseconds. `onChange` is called with the reason when the
   * receiver stops accepting messages, and with undefined when it accepts them again.
   */
  constructor(
    settings: WebhookSettings | undefined,
    now: () => number,
    onChange: (why: string | undefined) => void = () => {},
  ) {
    this.#settings = settings;
    this.#now = now;
    this.#onChange = onChange;
  }

  /**
   * The number of events dropped so far, because too many were held, none was accepted
   * for a day, or a reload turned events off.
   */
  get dropped(): number {
    return this.#dropped;
  }

  /**
   * Applies settings of a reload. Waiting events are sent to a new receiver at once, if there is one.
   * A call to the receiver before is cut, because that one may be hung.
   */
  reconfigure(settings: WebhookSettings | undefined): void {
    const before = this.#settings;
    this.#settings = settings;
    if (settings === undefined) {
      this.#forget();
      return;
    }
    if (!isSameReceiver(settings, before)) this.#endPause();
    if (!isSameReceiver(settings, this.#call?.receiver)) this.#call?.cut.abort();
    this.#wake(GATHER_MS);
  }

  take(event: WebhookEvent): void {
    const { kinds = [] } = this.#settings ?? {};
    if (!(kinds.includes("all") || kinds.includes(event.kind))) return;
    if (this.#waiting.length + (this.#message?.events ?? 0) >= HELD_MAX) {
      this.#dropped += 1;
      return;
    }
    this.#waiting.push(event);
    this.#wake(GATHER_MS);
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  /** Whether a message on its way is dropped is known by its answer. */
  #forget(): void {
    this.#dropped += this.#waiting.length;
    if (this.#call === undefined) this.#dropped += this.#message?.events ?? 0;
    this.#waiting = [];
    this.#message = undefined;
    this.#isFailing = false;
  }

  #endPause(): void {
    this.#tries = 0;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #wake(afterMs: number): void {
    if (this.#timer !== undefined || this.#call !== undefined || this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.#send();
    }, afterMs).unref();
  }

  async #send(): Promise<void> {
    const settings = this.#settings;
    this.#message ??= this.#next();
    const message = this.#message;
    if (settings === undefined || message === undefined) return;
    const cut = new AbortController();
    this.#call = { receiver: settings, cut };
    const failure = await postSigned(
      settings,
      { ...message, type: "application/json" },
      this.#now(),
      cut.signal,
    );
    const taken = failure === undefined;
    this.#call = undefined;
    if (this.#message !== message) {
      if (!taken) this.#dropped += message.events;
      return this.#wake(GATHER_MS);
    }
    if (!taken && cut.signal.aborted) return this.#wake(0);
    this.#note(failure?.why);
    const late = this.#now() - message.madeMs > GIVE_UP_MS;
    if (!taken && !late) {
      this.#wake(retryPauseMs(this.#tries));
      this.#tries += 1;
      return;
    }
    if (!taken) this.#dropped += message.events;
    this.#message = undefined;
    this.#tries = 0;
    if (this.#waiting.length > 0) this.#wake(0);
  }

  #note(failure: string | undefined): void {
    const isFailing = failure !== undefined;
    if (this.#isFailing === isFailing || this.#closed) return;
    this.#isFailing = isFailing;
    this.#onChange(failure);
  }

  #next(): Message | undefined {
    const events = this.#waiting.splice(0, BATCH_MAX);
    if (events.length === 0) return undefined;
    const madeMs = this.#now();
    const timestamp = new Date(madeMs).toISOString();
    const body = JSON.stringify({ type: "tollgate.events", timestamp, data: { events } });
    return { id: `msg_${randomUUID()}`, body, events: events.length, madeMs };
  }
}
