import { fstatSync, write as writeFile } from "node:fs";
import { Socket } from "node:net";
import type { LogEvent } from "../../telemetry/log/log.ts";

/** A request has its line within 200 ms of its end (docs/reference/http.md#request-line). */
const FLUSH_MS = 50;
/** A write costs a system call and a thread, so the timer flushes, but for a flood of lines. */
const CHUNK_BYTES = 256 * 1024;
/** The most bytes that UTF-8 takes for one UTF-16 unit. */
const BYTES_PER_CHARACTER_MAX = 3;
const RETRY_MS = 100;
/** The most bytes that wait for a reader. Lines beyond that are dropped and counted. */
const WAITING_BYTES_MAX = 8 * 1024 ** 2;
/** Lines wait this long for space on a disk. After that they are dropped and counted. */
const HELD_MS = 1_000;
const NEW_LINE = 0x0a;
/** Why lines wait although no write has failed: for a pipe or a socket, and for a file or a terminal. */
const UNREAD = "its reader does not read";
const STUCK = "a write to it does not end";
/** Failures of a disk that may be temporary. */
const DISK_FAILURES: ReadonlySet<unknown> = new Set(["ENOSPC", "EDQUOT", "EFBIG", "EIO"]);

/** Called with a message for people when lines begin to be dropped. */
type LogTroubleListener = (text: string) => void;

/** `blocks`: a stuck write holds a thread, and so delays the exit. */
type Writer = { readonly write: Write; readonly blocks: boolean };
/** The part of a chunk that must be written. */
type FilledChunk = { readonly chunk: Buffer; readonly from: number; readonly to: number };
type Write = (chunk: Buffer, done: (error: Error | null, written: number) => void) => void;

/** Opens the log on a file descriptor: 1 is stdout. */
export function openLogPipe(fd: number, onTrouble?: LogTroubleListener): LogPipe {
  return new LogPipe(writerTo(fd), onTrouble);
}

/**
 * The event loop writes to a pipe or socket without blocking. A blocking write to a pipe that is
 * never read would hold a thread for ever, and with it the exit of the process (measured).
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

/**
 * The sink of log lines. A writer never waits and never fails, even if the pipe is closed or stuck,
 * or the disk is full (docs/reference/edge.md#log-pipe).
 */
export class LogPipe {
  readonly #write: Write;
  /**
   * Lines are encoded at once. As strings they would wait in the heap in many pieces, which each
   * young-generation collection would have to copy.
   */
  #chunk: Buffer = Buffer.allocUnsafeSlow(CHUNK_BYTES);
  #used = 0;
  /** A chunk that was written and can be filled again. */
  #spare: Buffer | undefined;
  /** Full chunks that wait for the current write. */
  #full: FilledChunk[] = [];
  #waitingBytes = 0;
  #writing = false;
  #closed = false;
  #timer: NodeJS.Timeout | undefined;
  #dropped = 0;
  #untold = 0;
  #onIdle: (() => void)[] = [];
  readonly #blocks: boolean;
  readonly #onTrouble: LogTroubleListener;
  #trouble: string | undefined;
  /** Why the last write failed; undefined if it did not. */
  #failure: string | undefined;
  /** The time since which the disk has accepted nothing, on performance.now(). */
  #fullSinceMs: number | undefined;
  /** Whether the last line on the disk is incomplete. */
  #torn = false;
  #isCalled = false;

  /** One write may take a part of a chunk. */
  constructor({ write, blocks }: Writer, onTrouble: LogTroubleListener = () => {}) {
    this.#write = write;
    this.#blocks = blocks;
    this.#onTrouble = onTrouble;
  }

  /** Whether a write to a file or a terminal is stuck, which keeps the process from exiting. */
  get holdsExit(): boolean {
    return this.#blocks && this.#isCalled;
  }

  /** Writes one whole line, or many. */
  write(lines: string): void {
    if (this.#closed || this.#waitingBytes + lines.length > WAITING_BYTES_MAX) {
      this.#countDropped(linesIn(Buffer.from(lines)));
      this.#tellTrouble(this.#failure ?? (this.#blocks ? STUCK : UNREAD));
      return;
    }
    this.#append(lines);
    if (this.#writing) return;
    if (this.#full.length > 0) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), FLUSH_MS).unref();
  }

  /** The number of lines dropped so far. */
  dropped(): number {
    return this.#dropped;
  }

  /** Why lines are dropped at present; undefined if they are not. */
  trouble(): string | undefined {
    return this.#trouble;
  }

  /** Resolves with whether all lines were written within `withinMs`. */
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
    const isWell = this.#fullSinceMs === undefined && !this.#closed;
    if (isWell && this.#waitingBytes === 0) this.#trouble = undefined;
    if (this.#waitingBytes === 0 && !(isWell && this.#untold > 0)) {
      for (const listener of this.#onIdle.splice(0)) listener();
      return;
    }
    if (isWell && this.#untold > 0) {
      const told = { level: "warn", time: Date.now(), dropped: this.#untold };
      const msg: LogEvent = "log_lines_dropped";
      this.#append(`${JSON.stringify({ ...told, msg })}\n`);
      this.#untold = 0;
    }
    if (this.#full.length === 0) this.#begin();
    this.#writing = true;
    this.#push(this.#full.shift() as FilledChunk);
  }

  #append(lines: string): void {
    const text = this.#torn ? `\n${lines}` : lines;
    this.#torn = false;
    const bytesMax = text.length * BYTES_PER_CHARACTER_MAX;
    if (bytesMax > this.#chunk.length - this.#used) this.#begin(bytesMax);
    const bytes = this.#chunk.write(text, this.#used);
    this.#used += bytes;
    this.#waitingBytes += bytes;
  }

  /** Called when the current chunk is full; `bytesMax` is the least size of the next one. */
  #begin(bytesMax = 0): void {
    if (this.#used > 0) this.#full.push({ chunk: this.#chunk, from: 0, to: this.#used });
    this.#used = 0;
    const spare = bytesMax <= CHUNK_BYTES ? this.#spare : undefined;
    this.#chunk = spare ?? Buffer.allocUnsafeSlow(Math.max(CHUNK_BYTES, bytesMax));
    this.#spare = undefined;
  }

  #push(filled: FilledChunk): void {
    const { chunk, from, to } = filled;
    this.#isCalled = true;
    this.#write(chunk.subarray(from, to), (error, written) => {
      this.#isCalled = false;
      if (error !== null) return this.#failed(error, filled);
      this.#fullSinceMs = undefined;
      this.#failure = undefined;
      this.#waitingBytes -= written;
      if (from + written < to) return this.#push({ chunk, from: from + written, to });
      if (chunk.length === CHUNK_BYTES) this.#spare = chunk;
      this.#writing = false;
      this.#send();
    });
  }

  /**
   * A full disk may get space again, and so may a slow terminal. A closed pipe never gets a reader
   * again.
   */
  #failed(error: Error, filled: FilledChunk): void {
    const code = "code" in error ? error.code : undefined;
    const isDisk = DISK_FAILURES.has(code);
    if (isDisk) this.#fullSinceMs ??= performance.now();
    const heldMs = performance.now() - (this.#fullSinceMs ?? performance.now());
    const isSlow = code === "EAGAIN" || code === "EINTR";
    const why = isDisk ? `${code}, the disk takes no more` : `${code}, it is closed`;
    if (!isSlow) this.#failure = why;
    if (isSlow || (isDisk && heldMs < HELD_MS)) {
      setTimeout(() => this.#push(filled), RETRY_MS).unref();
      return;
    }
    this.#closed = !isDisk;
    this.#drop(filled);
    this.#tellTrouble(why);
    this.#send();
  }

  /** Drops all waiting lines, and the rest of a partly written one. */
  #drop(filled: FilledChunk): void {
    const { chunk, from } = filled;
    const startsTorn = from === 0 && chunk[0] === NEW_LINE;
    this.#torn = from === 0 ? startsTorn : chunk[from - 1] !== NEW_LINE;
    this.#begin();
    const lines = [filled, ...this.#full].reduce((sum, one) => {
      return sum + linesIn(one.chunk.subarray(one.from, one.to));
    }, 0);
    this.#countDropped(startsTorn ? lines - 1 : lines);
    this.#full = [];
    this.#waitingBytes = 0;
    this.#writing = false;
  }

  #countDropped(lines: number): void {
    this.#dropped += lines;
    this.#untold += lines;
  }

  /** The trouble has the newest reason. People are told of its begin alone. */
  #tellTrouble(why: string): void {
    const isTold = this.#trouble !== undefined;
    this.#trouble = `lines of the log are dropped: ${why}`;
    if (isTold) return;
    this.#onTrouble(
      `Cannot write the log: ${why}. Lines are dropped until it can be written, and counted in tollgate_log_dropped_total\n`,
    );
  }
}

function linesIn(bytes: Buffer): number {
  let count = 0;
  for (let at = bytes.indexOf(NEW_LINE); at !== -1; at = bytes.indexOf(NEW_LINE, at + 1)) {
    count += 1;
  }
  return count;
}
