import { type BodyError, BodyParser } from "../parse/body-parser.ts";
import {
  type BodyFraming,
  type FramingError,
  isFramingError,
  parseFraming,
} from "../parse/framing.ts";
import type { HeadError } from "../parse/head-parser.ts";
import { type ParsedResponseHead, ResponseHeadParser } from "../parse/response-head-parser.ts";

/** Why bytes are no response. `unasked`: a 100 or a 101, which the gateway never asks for. */
export type ResponseError = Exclude<HeadError, "method"> | FramingError | BodyError | "unasked";

export type ResponseHead = ParsedResponseHead & {
  readonly framing: BodyFraming;
  /** Whether this response lets another one follow on this connection. */
  readonly keepsAlive: boolean;
  /** Seconds for which the upstream keeps an idle connection; undefined if it does not say. */
  readonly keepAliveS: number | undefined;
};

/**
 * `more`: all bytes were read; `interim`, `head`: one is in `interim` or `head`; `data`: of the
 * body, from `dataFrom` to `dataTo`; `end`: the response ended; `wrong`: malformed, final.
 */
type ResponseStep = "more" | "interim" | "head" | "data" | "end" | "wrong";

const HEAD = 0;
const BODY = 1;
const OVER = 2;

/** Parses responses to one request after another, however the bytes are split (RFC 9112 6.3). */
export class ResponseParser {
  readonly #headBytesMax: number;
  readonly #heads: ResponseHeadParser;
  readonly #body = new BodyParser();
  #phase = OVER;
  #toHead = false;
  /** The position where the last step stopped. */
  at = 0;
  interim: ParsedResponseHead | undefined;
  head: ResponseHead | undefined;
  error: ResponseError | undefined;

  /** A head has at most `headBytesMax`, status line and line ends included; so have the trailers. */
  constructor(headBytesMax: number) {
    this.#headBytesMax = headBytesMax;
    this.#heads = new ResponseHeadParser({ lineBytesMax: headBytesMax, headBytesMax });
  }

  get dataFrom(): number {
    return this.#body.dataFrom;
  }

  get dataTo(): number {
    return this.#body.dataTo;
  }

  /** Whether the body of the current response ends when the connection ends. */
  get untilClose(): boolean {
    return this.#phase === BODY && this.#body.untilClose;
  }

  /** The next response belongs to a request with this method. */
  start(method: string): void {
    this.#phase = HEAD;
    this.#toHead = method === "HEAD";
    this.head = undefined;
    this.#heads.next();
  }

  /**
   * Reads on from `at`, up to the next event. Must be called until it returns `more`, `end` or
   * `wrong`. Bytes after the end stay unread.
   */
  step(bytes: Buffer, at: number, to: number): ResponseStep {
    this.at = at;
    if (this.#phase === HEAD) return this.#readHead(bytes, to);
    if (this.#phase === OVER) return this.error === undefined ? "end" : "wrong";
    if (this.#body.error !== undefined) return this.#fail(this.#body.error);
    if (this.#body.done) {
      this.#phase = OVER;
      return "end";
    }
    if (at === to) return "more";
    this.at = this.#body.read(bytes, at, to);
    return this.dataTo > this.dataFrom ? "data" : this.step(bytes, this.at, to);
  }

  #readHead(bytes: Buffer, to: number): ResponseStep {
    const heads = this.#heads;
    this.at = heads.read(bytes, this.at, to);
    if (heads.error !== undefined) return this.#fail(heads.error as ResponseError);
    const { head } = heads;
    if (head === undefined) return "more";
    return head.status < 200 ? this.#takeInterim(head) : this.#takeFinal(head);
  }

  #takeInterim(head: ParsedResponseHead): ResponseStep {
    if (head.status < 102) return this.#fail("unasked");
    this.interim = head;
    this.#heads.next();
    return "interim";
  }

  #takeFinal({ status, version, rawHeaders }: ParsedResponseHead): ResponseStep {
    const {
      framing: told = "close",
      closesConnection: closes,
      keepAliveS,
    } = parseFraming(version, rawHeaders);
    // RFC 9112 6.3: these responses have no body, whatever their fields say.
    const isBodiless = this.#toHead || status === 204 || status === 304;
    const isDoubtful = isFramingError(told);
    if (isDoubtful && !isBodiless) return this.#fail(told);
    const framing = isBodiless || isDoubtful ? 0 : told;
    if (framing === "close") this.#body.startUntilClose();
    else if (framing === "chunked") this.#body.startChunked(this.#trailerLimits(), "chunk");
    else this.#body.startLength(framing);
    this.#phase = BODY;
    // A body that is announced may still come: it must not become the next response. Some servers,
    // such as gunicorn, send the body of a response to HEAD, also one that no field announces.
    const mayGoOn = isBodiless && told !== 0 && (this.#toHead || told !== "close");
    const keepsAlive = version === "1.1" && !closes && framing !== "close" && !mayGoOn;
    const fields = isDoubtful ? withoutLength(rawHeaders) : rawHeaders;
    this.head = { status, version, rawHeaders: fields, framing, keepsAlive, keepAliveS };
    return "head";
  }

  #trailerLimits() {
    return { trailerBytesMax: this.#headBytesMax, trailerCountMax: this.#headBytesMax };
  }

  #fail(error: ResponseError): "wrong" {
    this.error = error;
    this.#phase = OVER;
    return "wrong";
  }
}

/** Recipients would disagree about a length that is malformed, or is there with a coding. */
function withoutLength(rawHeaders: readonly string[]): string[] {
  return rawHeaders.filter((_, i) => {
    return rawHeaders[i - (i % 2)]?.toLowerCase() !== "content-length";
  });
}
