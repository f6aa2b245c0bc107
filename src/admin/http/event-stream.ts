import type { ServerResponse } from "node:http";
import { type AdminResponse, problemResponse } from "./response.ts";

/** A reader that misses this many events in a row is disconnected. */
const MISSED_MAX = 15;

/** A reader that is owed more than this is disconnected. */
const OWED_BYTES_MAX = 1_048_576;

/**
 * One server-sent event. `data` is one line. If `isPassing`, later ones replace it, and a slow reader
 * does without it.
 */
export type StreamedEvent = {
  readonly event: string;
  readonly data: string;
  readonly isPassing?: boolean;
};

/**
 * `read` returns the events since its last call, or undefined if some of them are lost: then every
 * stream ends, so that its reader connects again. It never rejects.
 */
export type EventStreamOptions = {
  readonly everyMs: number;
  readonly watchersMax: number;
  /** At the maximum, the oldest stream ends for a new one if it has lasted this long. */
  readonly keptMs: number;
  /** The admin token in force. Streams that were opened with another token end. */
  readonly token: () => string;
  /** Called when a reader connects after a time without readers, before the first `read`. */
  readonly begin: () => void;
  readonly read: () => Promise<readonly StreamedEvent[] | undefined>;
  /** Called when the last reader has left. */
  readonly end?: () => void;
};

/**
 * `missed` is the number of turns that a reader missed in a row, and `owed` the events of these
 * turns that it still gets. `sinceMs` is on performance.now().
 */
type Watcher = {
  missed: number;
  owed: string;
  readonly token: string;
  readonly sinceMs: number;
};

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

  /** A stream, which lasts until the reader or this side ends it. `hello` is its first event. */
  open(hello: unknown): AdminResponse {
    const { watchersMax } = this.#options;
    const hasRoom = !this.#isFull || this.#yielding !== undefined;
    if (this.#closed || !hasRoom) {
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

  get #isFull(): boolean {
    return this.#watchers.size >= this.#options.watchersMax;
  }

  /**
   * The oldest stream, if it has lasted long enough to end for a new one. The system takes megabytes
   * for a reader that is asleep, which looks like one that reads until then.
   */
  get #yielding(): Watcher | undefined {
    const [oldest] = this.#watchers.values();
    const keptMs = performance.now() - (oldest?.sinceMs ?? Number.POSITIVE_INFINITY);
    return keptMs >= this.#options.keptMs ? oldest : undefined;
  }

  /** A reader that takes nothing is cut, because its connection would stay for as long as it likes. */
  #end(isOver: (watcher: Watcher) => boolean): void {
    for (const [response, watcher] of this.#watchers) {
      if (!isOver(watcher)) continue;
      if (response.writableNeedDrain) response.destroy();
      else response.end();
      this.#watchers.delete(response);
    }
    if (this.#watchers.size === 0) this.#rest();
  }

  #add(response: ServerResponse): void {
    if (this.#closed) {
      response.end();
      return;
    }
    const token = this.#options.token();
    const yielding = this.#isFull ? this.#yielding : undefined;
    this.#watchers.set(response, { missed: 0, owed: "", token, sinceMs: performance.now() });
    this.#end((watcher) => watcher === yielding);
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
    this.#options.end?.();
  }

  /** Skips a turn if the last read is still in progress. */
  async #tell(): Promise<void> {
    const token = this.#options.token();
    this.#end((watcher) => watcher.token !== token);
    if (this.#reading || this.#watchers.size === 0) return;
    this.#reading = true;
    try {
      const events = await this.#options.read();
      if (events === undefined) {
        this.#end(() => true);
        return;
      }
      const all = events.map(textOf).join("");
      const lasting = events.filter(({ isPassing = false }) => !isPassing);
      const turn = { all, lasting: lasting.map(textOf).join("") };
      for (const [response, watcher] of this.#watchers) write(response, watcher, turn);
    } finally {
      this.#reading = false;
    }
  }
}

type Turn = { readonly all: string; readonly lasting: string };

/** A reader that is disconnected gets what it missed with `hello`, once it connects again. */
function write(response: ServerResponse, watcher: Watcher, { all, lasting }: Turn): void {
  if (!response.writableNeedDrain) {
    response.write(watcher.owed + all);
    watcher.missed = 0;
    watcher.owed = "";
    return;
  }
  watcher.missed += 1;
  watcher.owed += lasting;
  const isOver = watcher.missed > MISSED_MAX || Buffer.byteLength(watcher.owed) > OWED_BYTES_MAX;
  if (isOver) response.destroy();
}

function textOf({ event, data }: StreamedEvent): string {
  return `event: ${event}\ndata: ${data}\n\n`;
}
