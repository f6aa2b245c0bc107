import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";

/** The most bytes for the parser in one turn of the event loop: one head, or a piece of a body. */
const PIECE_BYTES_MAX = 16_384;
/** A connection with this many unparsed bytes is paused. */
const AHEAD_BYTES_MAX = 65_536;

type Listener = (...args: unknown[]) => void;

/**
 * Gives the bytes of connections to the parser of a server piece by piece: one piece in each turn
 * of the event loop, round-robin, and only when the earlier requests of the connection are
 * answered. Node alone parses all bytes of a read, and handles every request in them, before any
 * other work gets a turn, including customers' requests (docs/reference/admin.md#open-endpoints).
 */
export function meterInput(server: Server): void {
  const turns = new Turns();
  const connections = new WeakMap<Socket, MeteredConnection>();
  server.on("connection", (socket: Socket) => {
    connections.set(socket, new MeteredConnection(socket, turns));
  });
  const follow = (request: IncomingMessage, response: ServerResponse) => {
    connections.get(request.socket)?.follow(request, response);
  };
  server.prependListener("request", follow);
  server.prependListener("checkExpectation", follow);
}

/** Lets one connection after the other parse a piece, each in its own turn of the event loop. */
class Turns {
  readonly #waiting = new Set<MeteredConnection>();
  #isScheduled = false;

  ask(connection: MeteredConnection): void {
    this.#waiting.add(connection);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isScheduled || this.#waiting.size === 0) return;
    this.#isScheduled = true;
    setImmediate(() => this.#turn());
  }

  #turn(): void {
    this.#isScheduled = false;
    for (const connection of this.#waiting) {
      this.#waiting.delete(connection);
      if (connection.parsePiece()) break;
    }
    this.#schedule();
  }
}

/** The parser refuses lines that end in LF alone. */
const HEAD_END = "\r\n\r\n";

/** The end of the first head in these bytes, as far as one piece goes. */
function pieceEnd(bytes: Buffer): number {
  const most = bytes.subarray(0, PIECE_BYTES_MAX);
  const at = most.indexOf(HEAD_END, 0, "latin1");
  return at === -1 ? most.length : at + HEAD_END.length;
}

/** One connection, between its socket and the parser that Node attached to it. */
class MeteredConnection {
  readonly #socket: Socket;
  readonly #turns: Turns;
  readonly #parse: Listener;
  readonly #finish: Listener;
  readonly #ahead: Buffer[] = [];
  #aheadBytes = 0;
  #ended = false;
  #given = false;
  /** The requests without a complete response, and the last request. */
  #unanswered = 0;
  #last: IncomingMessage | undefined;

  constructor(socket: Socket, turns: Turns) {
    this.#socket = socket;
    this.#turns = turns;
    this.#parse = socket.listeners("data").at(-1) as Listener;
    this.#finish = socket.listeners("end").at(-1) as Listener;
    socket.off("data", this.#parse);
    socket.off("end", this.#finish);
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    // The response to bytes that are not HTTP reads the bytes that follow itself.
    socket.on("removeListener", (_name, listener) => {
      if (listener === this.#onData) this.#giveUp();
    });
    socket.once("close", () => this.#giveUp());
  }

  follow(request: IncomingMessage, response: ServerResponse): void {
    this.#last = request;
    this.#unanswered += 1;
    response.once("close", () => {
      this.#unanswered -= 1;
      if (this.#hasMore) this.#turns.ask(this);
    });
  }

  /**
   * Parses one piece of the input, and asks for the next turn. False if nothing may be parsed now.
   */
  parsePiece(): boolean {
    const [first] = this.#ahead;
    if (!this.#mayParse) return false;
    if (first === undefined) {
      if (this.#ended) this.#finishInput();
      return false;
    }
    const piece = first.subarray(0, pieceEnd(first));
    if (piece.length === first.length) this.#ahead.shift();
    else this.#ahead[0] = first.subarray(piece.length);
    this.#aheadBytes -= piece.length;
    if (this.#aheadBytes < AHEAD_BYTES_MAX && this.#socket.isPaused()) this.#socket.resume();
    this.#parse.call(this.#socket, piece);
    // The parser has the socket read on at the end of each request, whatever waits.
    this.#pauseIfFull();
    if (this.#hasMore) this.#turns.ask(this);
    return true;
  }

  get #hasMore(): boolean {
    return !this.#given && (this.#ahead.length > 0 || this.#ended);
  }

  /** Whether all requests are answered, or the input is the body of the last request. */
  get #mayParse(): boolean {
    return !this.#given && (this.#unanswered === 0 || this.#last?.complete === false);
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#ahead.push(chunk);
    this.#aheadBytes += chunk.length;
    this.#pauseIfFull();
    this.#turns.ask(this);
  };

  readonly #onEnd = (): void => {
    this.#ended = true;
    this.#turns.ask(this);
  };

  #pauseIfFull(): void {
    if (!this.#given && this.#aheadBytes >= AHEAD_BYTES_MAX) this.#socket.pause();
  }

  #finishInput(): void {
    this.#given = true;
    this.#finish.call(this.#socket);
  }

  #giveUp(): void {
    this.#given = true;
    if (this.#socket.isPaused()) this.#socket.resume();
  }
}
