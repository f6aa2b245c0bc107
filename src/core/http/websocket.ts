import { hash } from "node:crypto";
import { accept, type Result, refuse } from "../refusal.ts";
import { fieldValues, type RawRequestHead } from "./head.ts";

/** A request to open a WebSocket, as RFC 6455 4.1 requires it: its Sec-WebSocket-Key. */
export type Handshake = { readonly key: string };

/** The only version that exists (RFC 6455 4.4). The refusal of another version names it too. */
export const WEBSOCKET_VERSION = "13";
const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
/** Sixteen bytes in base64. */
const KEY = /^[A-Za-z0-9+/]{22}==$/;

/**
 * Whether a request asks for a WebSocket, even if it is malformed. A request with any other Upgrade
 * is served as a plain one, without the field (RFC 9110 7.8). So is a request on HTTP/1.0 or
 * without `Connection: upgrade`.
 */
function isWebSocketRequest({ version, rawHeaders }: RawRequestHead): boolean {
  return (
    version === "1.1" &&
    fieldValues(rawHeaders, "upgrade").some((value) => value.toLowerCase() === "websocket") &&
    names(rawHeaders, "connection", "upgrade")
  );
}

/**
 * Validates a request that may become a tunnel (docs/reference/edge.md#upgrade): a GET on HTTP/1.1
 * without a body, one `Upgrade: websocket` that Connection names, version 13 and a key of 16 bytes.
 * Undefined if it asks for no WebSocket. Reads rawHeaders, because nothing else about the request
 * has been validated yet.
 */
export function validateHandshake(raw: RawRequestHead): Result<Handshake> | undefined {
  if (!isWebSocketRequest(raw)) return undefined;
  const { method, rawHeaders, framing } = raw;
  const one = (name: string) => {
    const values = fieldValues(rawHeaders, name);
    return values.length === 1 ? values[0] : undefined;
  };
  if (one("upgrade") === undefined) return refuse("bad_request", "more than one upgrade");
  if (method !== "GET") return refuse("bad_request", "an upgrade with another method than GET");
  if (framing !== 0) return refuse("bad_request", "an upgrade with a body");
  if (one("sec-websocket-version") !== WEBSOCKET_VERSION) {
    return refuse("bad_request", "not WebSocket version 13");
  }
  const key = one("sec-websocket-key");
  if (key === undefined || !KEY.test(key)) {
    return refuse("bad_request", "no Sec-WebSocket-Key of 16 bytes");
  }
  return accept({ key });
}

/** The Sec-WebSocket-Accept that proves that the backend received this key (RFC 6455 4.2.2). */
export function webSocketAccept(key: string): string {
  return hash("sha1", key + GUID, "base64");
}

/** The reason why a 101 of the backend must not be forwarded; undefined if it may be. */
export function switchError(raw: readonly string[], key: string): string | undefined {
  const upgrades = fieldValues(raw, "upgrade");
  if (upgrades.length !== 1 || (upgrades[0] as string).toLowerCase() !== "websocket") {
    return "a 101 to something else than WebSocket";
  }
  const accepts = fieldValues(raw, "sec-websocket-accept");
  if (accepts.length !== 1 || accepts[0] !== webSocketAccept(key)) {
    return "a 101 without the right Sec-WebSocket-Accept";
  }
  return undefined;
}

function names(rawHeaders: readonly string[], field: string, option: string): boolean {
  return fieldValues(rawHeaders, field).some((value) =>
    value.split(",").some((one) => one.trim().toLowerCase() === option),
  );
}

const CLOSE = 0x8;

/**
 * Follows the frames of one direction (RFC 6455 5.2) just far enough to know when one ends. A
 * control frame may stand between the frames of a message, and never inside one.
 */
export class Frames {
  #header: number[] = [];
  #payloadLeft = 0;
  #closed = false;

  /** Whether a control frame may follow: no frame is incomplete, and none was a close frame. */
  get mayClose(): boolean {
    return this.#header.length === 0 && this.#payloadLeft === 0 && !this.#closed;
  }

  pass(bytes: Uint8Array): void {
    let at = 0;
    while (at < bytes.length) {
      if (this.#payloadLeft > 0) {
        const taken = Math.min(this.#payloadLeft, bytes.length - at);
        this.#payloadLeft -= taken;
        at += taken;
      } else {
        this.#header.push(bytes[at] as number);
        at += 1;
        if (this.#header.length === headerLength(this.#header)) this.#begin();
      }
    }
  }

  #begin(): void {
    const [first = 0, second = 0] = this.#header;
    const short = second & 0x7f;
    const long = this.#header.slice(2, 2 + lengthBytes(short));
    this.#payloadLeft = short < 126 ? short : long.reduce((sum, byte) => sum * 256 + byte, 0);
    if ((first & 0x0f) === CLOSE) this.#closed = true;
    this.#header = [];
  }
}

function headerLength([, second = 0]: readonly number[]): number {
  return 2 + lengthBytes(second & 0x7f) + (second & 0x80 ? 4 : 0);
}

function lengthBytes(short: number): number {
  if (short < 126) return 0;
  return short === 126 ? 2 : 8;
}

/** An unmasked close frame, as a server sends it, with a status of RFC 6455 7.4. */
export function closeFrame(status: 1001 | 1008): Uint8Array {
  return Uint8Array.of(0x80 | CLOSE, 2, status >> 8, status & 0xff);
}
