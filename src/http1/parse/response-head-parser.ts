import {
  HeadParser,
  type HttpVersion,
  STATE_LINE_LF,
  STATE_START,
  STATE_VERSION_END,
} from "./head-parser.ts";
import { CR, FIELD_VALUE_BYTES, isDigit, runEnd, SP } from "./octets.ts";

export type ParsedResponseHead = {
  readonly status: number;
  readonly version: HttpVersion;
  /** Names and values in turn, as they were sent. Nothing is merged or dropped. */
  readonly rawHeaders: string[];
};

const STATUS = 1;
const STATUS_END = 2;
const REASON = 3;

/** Parses heads of responses: `version SP status SP reason CRLF`, and fields (RFC 9112 4). */
export class ResponseHeadParser extends HeadParser<ParsedResponseHead> {
  #status = 0;

  protected override linePart(bytes: Buffer, at: number, to: number): number {
    const byte = bytes[at] as number;
    switch (this.state) {
      case STATE_START:
        return this.versionPart(bytes, at, to);
      case STATE_VERSION_END:
        return this.versionEnd(byte, at, SP, STATUS);
      case STATUS:
        return this.#statusByte(byte, at);
      case STATUS_END:
        // Some servers omit the space when they omit the reason phrase.
        if (byte === SP) return this.enter(REASON, at);
        return this.#reasonEnd(byte, at);
      case REASON: {
        const end = runEnd(bytes, at, to, FIELD_VALUE_BYTES);
        return end === to ? end : this.#reasonEnd(bytes[end] as number, end);
      }
      default:
        return this.lineEnd(byte, at);
    }
  }

  protected override headOf(_text: string, _at: number, rawHeaders: string[]): ParsedResponseHead {
    return { status: this.#status, version: this.version, rawHeaders };
  }

  /** RFC 9110 15: a status has three digits and is at least 100. */
  #statusByte(byte: number, at: number): number {
    const digit = byte - 0x30;
    const isFirst = this.partBytes === 0;
    if (!isDigit(byte) || (isFirst && digit === 0)) return this.fail("line", at);
    this.#status = isFirst ? digit : this.#status * 10 + digit;
    this.partBytes += 1;
    return this.partBytes === 3 ? this.enter(STATUS_END, at) : at + 1;
  }

  #reasonEnd(byte: number, at: number): number {
    return byte === CR ? this.enter(STATE_LINE_LF, at) : this.fail("line", at);
  }
}
