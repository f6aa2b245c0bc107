/** A line that is longer than any that a worker writes: it is dropped. */
const LINE_BYTES_MAX = 1024 ** 2;
const NEWLINE = 10;

/**
 * Puts the pieces that come through a pipe together to whole lines, and passes those on as they
 * come: many at once. Half a line at the end, of a process that was killed, is thrown away.
 */
export class LineSplitter {
  readonly #pass: (lines: string) => void;
  #half: Buffer[] = [];
  #halfBytes = 0;
  #giveUp = false;
  /** Lines thrown away. */
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
    if (rest.length === 0 || this.#giveUp) return;
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
