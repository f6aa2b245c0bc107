import { fstatSync, write as writeFile } from "node:fs";
import { Socket } from "node:net";

/** The line of a request is out within 200 ms of its end (docs/reference/http.md#request-line). */
const FLUSH_MS = 50;
/** A write costs a system call and a thread: the timer is what flushes, short of a flood. */
const CHUNK_CHARACTERS = 256 * 1024;
const RETRY_MS = 100;
/**
 * The most that waits for a reader that does not read; lines on top of it are dropped and counted.
 */
const WAITING_CHARACTERS_MAX = 8 * 1024 ** 2;

/**
 * The sink of log lines. A writer never waits and never fails, whatever becomes of the reader: the
 * pipe may be closed or stuck, or the disk full (docs/reference/edge.md#log-pipe).
 */
export type LogPipe = {
  /** One whole line, or many. */
  write(lines: string): void;
  /** Lines thrown away so far. */
  dropped(): number;
  /** Resolves with whether all lines left within `withinMs`. */
  flush(withinMs: number): Promise<boolean>;
  /** Whether a write that is stuck would keep the process from exiting: files and terminals. */
  readonly holdsExit: boolean;
};

type Writer = { readonly write: Write; readonly blocks: boolean };
type Write = (chunk: Buffer, done: (error: Error | null, written: number) => void) => void;

/** Opens the log on a file descriptor: 1 is stdout. */
export function openLogPipe(fd: number): LogPipe {
  return new Pipe(writerTo(fd));
}

/**
 * A pipe or socket is written without blocking, by the event loop. A blocking write to a pipe that
 * nobody reads would hold a thread for ever, and with it the exit of the process (measured).
 */
function writerTo(fd: number): Writer {
  const kind = fstatSync(fd);
  if (!kind.isFIFO() && !kind.isSocket()) {
    return { blocks: true, write: (chunk, done) => writeFile(fd, chunk, done) };
  }
  const socket = new Socket({ fd, readable: false, writable: true });
  socket.on("error", () => {});
  const write: Write = (chunk, done) => {
    socket.write(chunk, (error) => done(error ?? null, chunk.length));
  };
  return { blocks: false, write };
}

class Pipe implements LogPipe {
  readonly #write: Write;
  #lines: string[] = [];
  #waiting = 0;
  #writing = false;
  #closed = false;
  #timer: NodeJS.Timeout | undefined;
  #dropped = 0;
  #untold = 0;
  #onIdle: (() => void)[] = [];

  readonly holdsExit: boolean;

  constructor({ write, blocks }: Writer) {
    this.#write = write;
    this.holdsExit = blocks;
  }

  write(line: string): void {
    if (this.#closed || this.#waiting + line.length > WAITING_CHARACTERS_MAX) {
      const lines = linesIn(line);
      this.#dropped += lines;
      this.#untold += lines;
      return;
    }
    this.#lines.push(line);
    this.#waiting += line.length;
    if (this.#writing) return;
    if (this.#waiting >= CHUNK_CHARACTERS) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), FLUSH_MS).unref();
  }

  dropped(): number {
    return this.#dropped;
  }

  flush(withinMs: number): Promise<boolean> {
    if (!this.#writing) this.#send();
    if (!this.#writing) return Promise.resolve(true);
    return new Promise((resolve) => {
      const timer = setTimeout(() => resolve(false), withinMs);
      this.#onIdle.push(() => {
        clearTimeout(timer);
        resolve(true);
      });
    });
  }

  #send(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#lines.length === 0) {
      for (const listener of this.#onIdle.splice(0)) listener();
      return;
    }
    if (this.#untold > 0) {
      const told = { level: "warn", time: Date.now(), dropped: this.#untold };
      this.#lines.push(`${JSON.stringify({ ...told, msg: "log lines were dropped" })}\n`);
      this.#untold = 0;
    }
    const chunk = Buffer.from(this.#lines.join(""));
    const characters = this.#waiting;
    this.#lines = [];
    this.#writing = true;
    this.#push(chunk, characters);
  }

  #push(chunk: Buffer, characters: number): void {
    this.#write(chunk, (error, written) => {
      if (error !== null) return this.#failed(error, chunk, characters);
      if (written < chunk.length) return this.#push(chunk.subarray(written), characters);
      this.#waiting -= characters;
      this.#writing = false;
      this.#send();
    });
  }

  /** A full disk may have room again, a slow terminal too; a closed pipe never has a reader again. */
  #failed(error: Error, chunk: Buffer, characters: number): void {
    const code = "code" in error ? error.code : undefined;
    if (code === "EAGAIN" || code === "ENOSPC" || code === "EDQUOT" || code === "EINTR") {
      setTimeout(() => this.#push(chunk, characters), RETRY_MS).unref();
      return;
    }
    this.#dropped += linesIn(chunk.toString()) + linesIn(this.#lines.join(""));
    this.#closed = true;
    this.#lines = [];
    this.#waiting = 0;
    this.#writing = false;
    this.#send();
  }
}

function linesIn(text: string): number {
  let count = 0;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}
