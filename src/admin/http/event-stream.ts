import type { ServerResponse } from "node:http";
import { type AdminResponse, problemResponse } from "./response.ts";

/** A reader that misses this many events in a row is disconnected. */
const MISSED_MAX = 15;

/** One server-sent event. `data` is one line. */
export type StreamedEvent = { readonly event: string; readonly data: string };

/** `read` returns the events since its last call. It never rejects. */
export type EventStreamOptions = {
  readonly everyMs: number;
  readonly watchersMax: number;
  /** The admin token in force. Streams that were opened with another token end. */
  readonly token: () => string;
  /** Called when a reader connects after a time without readers, before the first `read`. */
  readonly begin: () => void;
  readonly read: () => Promise<readonly StreamedEvent[]>;
};

/** `missed` is the number of events that a reader missed in a row. */
type Watcher = { missed: number; readonly token: string };

/**
 * One stream of server-sent events for all readers (docs/reference/admin.md#events). Each event is
 * read and encoded once for all of them. While there are no readers it has no timer and reads
 * nothing.
 */
export class EventStream {
  readonly #options: EventStreamOptions;
  readonly #watchers = new Map<ServerResponse, Watcher>();
  #timer: NodeJS.Timeout | undefined;
  #reading = false;
  #closed = false;

  constructor(options: EventStreamOptions) {
    this.#options = options;
  }

  get clientCount(): number {
    return this.#watchers.size;
  }

  /**
   * The response of a stream, which lasts until the reader or this side ends it. `hello` is its
   * first event.
   */
  open(hello: unknown): AdminResponse {
    const { watchersMax } = this.#options;
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

  /** Ends every stream. No stream can be opened after it. */
  close(): void {
    this.#closed = true;
    this.#end(() => true);
  }

  #end(isOver: (watcher: Watcher) => boolean): void {
    for (const [response, watcher] of this.#watchers) {
      if (!isOver(watcher)) continue;
      response.end();
      this.#watchers.delete(response);
    }
    if (this.#watchers.size === 0) this.#rest();
  }

  #add(response: ServerResponse): void {
    if (this.#closed) {
      response.end();
      return;
    }
    this.#watchers.set(response, { missed: 0, token: this.#options.token() });
    response.once("close", () => {
      this.#watchers.delete(response);
      if (this.#watchers.size === 0) this.#rest();
    });
    if (this.#timer === undefined) {
      this.#options.begin();
      this.#timer = setInterval(() => void this.#tell(), this.#options.everyMs);
    }
    void this.#tell();
  }

  #rest(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  /** Skips a turn if the last read is still in progress. */
  async #tell(): Promise<void> {
    const token = this.#options.token();
    this.#end((watcher) => watcher.token !== token);
    if (this.#reading || this.#watchers.size === 0) return;
    this.#reading = true;
    try {
      const text = (await this.#options.read()).map(textOf).join("");
      for (const [response, watcher] of this.#watchers) write(response, watcher, text);
    } finally {
      this.#reading = false;
    }
  }
}

function write(response: ServerResponse, watcher: Watcher, text: string): void {
  if (!response.writableNeedDrain) {
    watcher.missed = 0;
    response.write(text);
  } else if (watcher.missed >= MISSED_MAX) {
    response.destroy();
  } else {
    watcher.missed += 1;
  }
}

function textOf({ event, data }: StreamedEvent): string {
  return `event: ${event}\ndata: ${data}\n\n`;
}
