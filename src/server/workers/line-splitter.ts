/** A longer line is dropped: workers write none of this length. */
const LINE_BYTES_MAX = 1024 ** 2;
const NEWLINE = 10;

/**
 * Joins the pieces that come through a pipe to whole lines, and passes the lines on at once, many
 * in one call. An incomplete line at the end, of a process that was killed, is dropped.
 */
export class LineSplitter {
  readonly #pass: (lines: string) => void;
  #half: Buffer[] = [];
  #halfBytes = 0;
  #giveUp = false;
  /** The number of dropped lines. */
  lost = 0;

  constructor(pass: (lines: string) => void) {
    this.#pass = pass;
  }

  take(chunk: Buffer): void {
    const end = chunk.lastIndexOf(NEWLINE) + 1;
    if (end > 0) {
      const from = this.#giveUp ? chunk.indexOf(NEWLINE) + 1 : 0;
      this.#giveUp = false;
      const lines = Buffer.concat([...this.#half, chunk.subarray(from, end)]);
      this.#forget();
      if (lines.length > 0) this.#pass(lines.toString());
    }
    const rest = chunk.subarray(end);
    if (this.#giveUp) return;
    this.#half.push(rest);
    this.#halfBytes += rest.length;
    if (this.#halfBytes > LINE_BYTES_MAX) {
      this.end();
      this.#giveUp = true;
    }
  }

  end(): void {
    if (this.#halfBytes > 0) this.lost += 1;
    this.#forget();
  }

  #forget(): void {
    this.#half = [];
    this.#halfBytes = 0;
  }
}
