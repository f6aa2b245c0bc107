import type { AnswerReader } from "../../core/meters/answer-reader.ts";
import { recycleBuffer } from "../../http1/client/buffer-pool.ts";
import type { ResponseWriter } from "../../http1/server/response-writer.ts";
import { countForwardedBytes } from "../runtime/memory.ts";
import { endInBatch } from "./end-in-batch.ts";
import { isSmall } from "./upstream-response.ts";

/**
 * After so many bytes of one metered answer the other connections have their turn. A socket gives up
 * to 2.6 MB at once, and to read them takes longer than to pass them on.
 */
const METERED_TURN_BYTES = 65_536;

/** The body of an upstream's response on its way to the client. */
export class ResponseBody {
  readonly #response: ResponseWriter;
  /** A small body that arrives in one piece is sent in one write with its head. */
  readonly #wholeBytes: number;
  #whole: Buffer | undefined;
  /** The pieces of one read are sent together. */
  #pieces: Buffer[] = [];
  /** Reads from the answer what the request used. */
  #answerReader: AnswerReader | undefined;
  /** The bytes that it read since it last left the others their turn. */
  #turnBytes = 0;

  constructor(
    response: ResponseWriter,
    promisedBytes: number,
    answerReader: AnswerReader | undefined,
  ) {
    this.#response = response;
    this.#wholeBytes = isSmall(promisedBytes) ? promisedBytes : -1;
    this.#answerReader = answerReader;
  }

  get isEmpty(): boolean {
    return this.#pieces.length === 0;
  }

  add(piece: Buffer): void {
    if (piece.length === this.#wholeBytes) {
      this.#answerReader?.read(piece);
      this.#whole = piece;
    } else this.#pieces.push(piece);
  }

  /** Returns false if the client must take bytes first. */
  write(): boolean {
    const pieces = this.#pieces;
    const [first] = pieces;
    if (first === undefined) return true;
    const whole = pieces.length === 1 ? first : Buffer.concat(pieces);
    this.#pieces = [];
    const takesMore = this.#response.write(whole);
    if (this.#answerReader !== undefined) {
      this.#answerReader.read(whole);
      this.#turnBytes += whole.length;
    }
    if (!this.#response.isFlushed || !recycleBuffer(whole)) countForwardedBytes(whole.length);
    return takesMore;
  }

  /** Whether the other connections should have their turn. If so, the next one of this body begins. */
  endTurn(): boolean {
    if (this.#turnBytes < METERED_TURN_BYTES) return false;
    this.#turnBytes = 0;
    return true;
  }

  /** Reads the last bytes of a metered answer before they are sent, because they may tell its use. */
  readLast(): void {
    for (const piece of this.#pieces) this.#answerReader?.read(piece);
    this.#answerReader = undefined;
  }

  end(): void {
    endInBatch(this.#response, this.#whole);
  }

  /** Sends what was held back until the answer was settled. */
  endMetered(): void {
    this.write();
    this.#response.end(this.#whole?.toString("latin1"));
  }
}
