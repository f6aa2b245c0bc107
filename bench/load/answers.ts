/** Reads the answers of one connection, which has at most one request under way. */
export class AnswerReader {
  #head = "";
  /** Bytes of the body still to come; Infinity in a chunked one. Undefined while the head is read. */
  #remaining: number | undefined;
  #status = 0;
  #closes = false;

  /** The answer before this one ends the connection. */
  get closes(): boolean {
    return this.#closes;
  }

  /** Takes the first `length` bytes; gives the status once an answer is whole, else undefined. */
  read(bytes: Buffer, length: number): number | undefined {
    let bodyBytes = length;
    if (this.#remaining === undefined) {
      const before = this.#head.length;
      this.#head += bytes.toString("latin1", 0, length);
      const end = this.#head.indexOf("\r\n\r\n");
      if (end === -1) return undefined;
      this.#readHead(this.#head.slice(0, end + 2));
      bodyBytes = before + length - end - 4;
      this.#head = "";
    }
    return this.#readBody(bytes, length, bodyBytes);
  }

  #readHead(head: string): void {
    this.#status = Number(head.slice(9, 12));
    this.#closes = /\r\nconnection: *close\r\n/i.test(head);
    const found = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1];
    this.#remaining = found === undefined ? Number.POSITIVE_INFINITY : Number(found);
  }

  #readBody(bytes: Buffer, length: number, bodyBytes: number): number | undefined {
    const remaining = (this.#remaining ?? 0) - bodyBytes;
    // A chunked body ends with an empty chunk, and nothing follows: one request is under way.
    const ends =
      remaining === Number.POSITIVE_INFINITY
        ? bytes.toString("latin1", Math.max(0, length - 5), length) === "0\r\n\r\n"
        : remaining <= 0;
    this.#remaining = ends ? undefined : remaining;
    return ends ? this.#status : undefined;
  }
}
