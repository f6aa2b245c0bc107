import { connect, type Socket } from "node:net";
import { AnswerReader } from "./answers.ts";

/** The text of a whole request, in latin1, or its bytes. */
export type Message = string | Buffer;

export type ConnectionEvents = {
  /** The connection is open and has nothing under way. */
  onIdle(connection: Connection): void;
  /** Whole answers: the status, and how long the answer took, in milliseconds. */
  onAnswer(status: number, ms: number): void;
  /** The server ended the connection before a request was answered. */
  onBroken(): void;
};

/** All sockets read into these bytes, one after the other, so that a read allocates nothing. */
const READ = Buffer.alloc(65_536);

/** One keep-alive connection with one request under way at a time; it opens again when it ends. */
export class Connection {
  readonly #port: number;
  readonly #events: ConnectionEvents;
  #reader = new AnswerReader();
  #socket: Socket | undefined;
  /** When the request under way was due, on the monotonic clock. */
  #dueMs: number | undefined;
  #closed = false;

  constructor(port: number, events: ConnectionEvents) {
    this.#port = port;
    this.#events = events;
    this.#open();
  }

  send(message: Message, dueMs: number): void {
    this.#dueMs = dueMs;
    this.#socket?.write(message as string, "latin1");
  }

  close(): void {
    this.#closed = true;
    this.#socket?.destroy();
  }

  #open(): void {
    this.#reader = new AnswerReader();
    const callback = (length: number) => this.#take(length);
    const socket = connect({
      host: "127.0.0.1",
      port: this.#port,
      noDelay: true,
      onread: { buffer: READ, callback },
    });
    this.#socket = socket;
    socket.once("connect", () => this.#events.onIdle(this));
    socket.on("error", () => {});
    socket.once("close", () => this.#ended());
  }

  #take(length: number): boolean {
    const status = this.#reader.read(READ, length);
    if (status === undefined || this.#dueMs === undefined) return true;
    this.#events.onAnswer(status, performance.now() - this.#dueMs);
    this.#dueMs = undefined;
    if (this.#reader.closes) this.#socket?.destroy();
    else this.#events.onIdle(this);
    return true;
  }

  #ended(): void {
    if (this.#closed) return;
    if (this.#dueMs !== undefined) this.#events.onBroken();
    this.#dueMs = undefined;
    this.#open();
  }
}
