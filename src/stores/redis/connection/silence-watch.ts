import type { Socket } from "node:net";

const LOOK_MS = 100;

type Bounds = { readonly silenceMs: number; readonly replyMs: number };

/**
 * Has `leave` called for a connection on which nothing is read for `silenceMs`, or up to 100 ms longer,
 * while commands wait for replies, and ends one whose first waiting command stays the first for
 * `replyMs`, whatever is read: a reply of a wrong length takes those behind it for its own. It counts
 * looks, with the sockets read between two of them, so a process that stood still finds the replies
 * that came in that time. A timer for each command would cost more than all of this
 * (docs/decisions/hot-path.md).
 */
export class SilenceWatch {
  readonly #silentLooksMax: number;
  readonly #sameLooksMax: number;
  readonly #firstWaiting: () => object | undefined;
  readonly #leave: (socket: Socket, why: Error) => void;
  #socket: Socket | undefined;
  #timer: NodeJS.Timeout | undefined;
  #bytesRead = 0;
  #silentLooks = 0;
  #first: object | undefined;
  #sameLooks = 0;

  constructor(
    { silenceMs, replyMs }: Bounds,
    firstWaiting: () => object | undefined,
    leave: (socket: Socket, why: Error) => void,
  ) {
    this.#leave = leave;
    this.#silentLooksMax = Math.ceil(silenceMs / LOOK_MS);
    this.#sameLooksMax = Math.ceil(replyMs / LOOK_MS);
    this.#firstWaiting = firstWaiting;
  }

  /** Called when a command was sent on the connection. */
  begin(socket: Socket): void {
    if (this.#socket === socket) return;
    this.#end();
    this.#socket = socket;
    this.#bytesRead = socket.bytesRead;
    this.#silentLooks = 0;
    this.#timer = setInterval(() => this.#look(socket), LOOK_MS).unref();
  }

  #look(socket: Socket): void {
    const isSilent = socket.bytesRead === this.#bytesRead;
    this.#bytesRead = socket.bytesRead;
    const first = this.#firstWaiting();
    const isWaiting = first !== undefined;
    this.#silentLooks = isSilent && isWaiting ? this.#silentLooks + 1 : 0;
    this.#sameLooks = isWaiting && first === this.#first ? this.#sameLooks + 1 : 0;
    this.#first = first;
    const isStuck = this.#sameLooks > this.#sameLooksMax;
    const isLeft = this.#silentLooks > this.#silentLooksMax;
    if (socket.destroyed || isStuck || (isSilent && !isWaiting)) this.#end();
    const why = new Error("it does not reply");
    if (isStuck) socket.destroy(why);
    else if (isLeft) this.#leave(socket, why);
  }

  #end(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#socket = undefined;
    this.#first = undefined;
    this.#sameLooks = 0;
  }
}
