import type { ServerResponse } from "node:http";
import { type AdminResponse, problemResponse } from "./response.ts";

/** A reader that takes nothing for this many events is disconnected. */
const MISSED_MAX = 15;

/** One server-sent event. `data` is one line. */
export type StreamedEvent = { readonly event: string; readonly data: string };

/** `read` gives the events since it was called last. It never rejects. */
export type EventStreamOptions = {
  readonly everyMs: number;
  readonly watchersMax: number;
  /** The admin token in force: streams that were opened under another one end. */
  readonly token: () => string;
  /** Called when a reader connects after a time without any, ahead of the first reading. */
  readonly begin: () => void;
  readonly read: () => Promise<readonly StreamedEvent[]>;
};

/**
 * One stream of server-sent events for all who watch (docs/reference/admin.md#events): each event is
 * read and written out once for all of them. Without a reader it has no timer and reads nothing.
 */
export class EventStream {
  readonly #source: EventStreamOptions;
  /** Each with the number of events that it missed in a row. */
  readonly #watchers = new Map<ServerResponse, number>();
  #timer: NodeJS.Timeout | undefined;
  #reading = false;
  /** The token under which the first of those who watch began. */
  #token = "";
  #closed = false;

  constructor(source: EventStreamOptions) {
    this.#source = source;
  }

  get clientCount(): number {
    return this.#watchers.size;
  }

  /** The answer that goes on until the reader or this side ends it; `hello` comes first. */
  open(hello: unknown): AdminResponse {
    const { watchersMax } = this.#source;
    if (this.#closed || this.#watchers.size >= watchersMax) {
      const message = `At most ${watchersMax} watch at a time: close another page`;
      return problemResponse("too_many_watchers", message, { fields: ["Retry-After", "5"] });
    }
    const stream = (response: ServerResponse) => {
      response.write(textOf({ event: "hello", data: JSON.stringify(hello) }));
      this.#add(response);
    };
    return { status: 200, type: "text/event-stream", body: "", fields: [], stream };
  }

  /** Ends every stream; none is opened after it. */
  close(): void {
    this.#closed = true;
    this.#endAll();
  }

  #endAll(): void {
    for (const response of this.#watchers.keys()) response.end();
    this.#watchers.clear();
    this.#rest();
  }

  #add(response: ServerResponse): void {
    if (this.#closed) {
      response.end();
      return;
    }
    this.#watchers.set(response, 0);
    response.once("close", () => {
      this.#watchers.delete(response);
      if (this.#watchers.size === 0) this.#rest();
    });
    if (this.#timer === undefined) {
      this.#source.begin();
      this.#token = this.#source.token();
      this.#timer = setInterval(() => void this.#tell(), this.#source.everyMs);
    }
    void this.#tell();
  }

  #rest(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** A read that is slower than the interval is not started twice. */
  async #tell(): Promise<void> {
    if (this.#source.token() !== this.#token) this.#endAll();
    if (this.#reading || this.#watchers.size === 0) return;
    this.#reading = true;
    try {
      const text = (await this.#source.read()).map(textOf).join("");
      for (const [response, missed] of this.#watchers) this.#write(response, missed, text);
    } finally {
      this.#reading = false;
    }
  }

  #write(response: ServerResponse, missed: number, text: string): void {
    if (!response.writableNeedDrain) {
      this.#watchers.set(response, 0);
      response.write(text);
    } else if (missed >= MISSED_MAX) {
      response.destroy();
    } else {
      this.#watchers.set(response, missed + 1);
    }
  }
}

function textOf({ event, data }: StreamedEvent): string {
  return `event: ${event}\ndata: ${data}\n\n`;
}
