import { ReadBuffer } from "../parse/read-buffer.ts";

/** A part of `bytes`: from `from` to `to`. */
type Part = { readonly bytes: Buffer; readonly from: number; readonly to: number };

/**
 * Bytes that a client sent ahead, in order. A piece that was put back stays where it is, and what
 * arrives behind it is collected apart. In one buffer each large body that waits for a decision
 * would be copied, into memory of twice its size.
 */
export class AheadBuffer {
  #first: Part | undefined;
  readonly #rest = new ReadBuffer();

  get length(): number {
    const first = this.#first;
    return (first === undefined ? 0 : first.to - first.from) + this.#rest.length;
  }

  /** Copies `bytes` from `from` to `to` behind all others, so that the caller may reuse them. */
  append(bytes: Buffer, from: number, to: number): void {
    this.#rest.append(bytes, from, to);
  }

  /** Puts bytes before all others, without a copy: they must not change. Only after `take`. */
  putBack(bytes: Buffer, from: number, to: number): void {
    this.#first = { bytes, from, to };
  }

  /** Removes the first bytes and returns them; undefined if there are none. */
  take(): Part | undefined {
    const first = this.#first;
    this.#first = undefined;
    if (first !== undefined) return first;
    if (this.#rest.length === 0) return undefined;
    const { bytes, length } = this.#rest;
    this.#rest.clear();
    return { bytes, from: 0, to: length };
  }

  /** Drops all bytes and releases their buffers. */
  clear(): void {
    this.#first = undefined;
    this.#rest.clear();
  }
}
