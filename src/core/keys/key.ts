import { hash } from "node:crypto";
import { crc32 } from "node:zlib";
import { accept, type Judged, refuse } from "../refusal.ts";

export const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const SECRET_LENGTH = 30;
const CHECKSUM_LENGTH = 6;

/**
 * `<prefix>_<tag>_<30 base62><checksum>`. `random` gives whole numbers from 0 to below `max`, and
 * must be cryptographic: core rolls no dice itself.
 */
export function formKey(prefix: string, tag: string, random: (max: number) => number): string {
  let body = `${prefix}_${tag}_`;
  for (let i = 0; i < SECRET_LENGTH; i++) body += BASE62[random(BASE62.length)];
  return body + checksum(body);
}

/** CRC-32 as in zlib of everything before it, in base62, padded with 0 to 6 characters. */
export function checksum(body: string): string {
  let rest = crc32(body);
  let text = "";
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    text = BASE62[rest % BASE62.length] + text;
    rest = Math.floor(rest / BASE62.length);
  }
  return text;
}

const BEARER = /^bearer +([A-Za-z0-9\-._~+/]+=*)$/i;
const TOKEN_LENGTH_MIN = 16;
const TOKEN_LENGTH_MAX = 512;

/**
 * The token of one Authorization field: RFC 6750 2.1, scheme in any case, token68 of 16 to 512
 * characters. Nothing else is hashed, looked up or logged (docs/reference/http.md#authentication).
 */
export function readBearer(authorization: string | undefined): Judged<string> {
  // No credentials are a missing key; whatever else is wrong with them is an invalid one.
  if (authorization === undefined || authorization === "") return refuse("key_missing");
  if (authorization.length > TOKEN_LENGTH_MAX + 16) return refuse("key_invalid", "too long");
  const token = BEARER.exec(authorization)?.[1] ?? "";
  if (token.length < TOKEN_LENGTH_MIN || token.length > TOKEN_LENGTH_MAX) {
    return refuse("key_invalid", "malformed credentials");
  }
  return accept(token);
}

/**
 * Judges shape, tag and checksum of a token, without looking anything up
 * (docs/reference/keys.md#key-shape).
 */
export function judgeShape(token: string, prefix: string, tag: string): Judged<string> {
  const start = `${prefix}_${tag}_`;
  if (!token.startsWith(start)) return refuse("key_invalid", "another prefix or environment");
  if (token.length !== start.length + SECRET_LENGTH + CHECKSUM_LENGTH) {
    return refuse("key_invalid", "wrong length");
  }
  if (!/^[0-9A-Za-z]+$/.test(token.slice(start.length))) return refuse("key_invalid", "not base62");
  const body = token.slice(0, -CHECKSUM_LENGTH);
  if (checksum(body) !== token.slice(-CHECKSUM_LENGTH)) {
    return refuse("key_invalid", "wrong checksum");
  }
  return accept(token);
}

const KEY_SHAPED = /([a-z0-9]_[a-z0-9]+_)[0-9A-Za-z]{20,}/g;
const WHOLE_KEY = /[a-z0-9]_[a-z0-9]+_[0-9A-Za-z]{36}(?![0-9A-Za-z])/;

/** Whether a text has a whole key in it, or one mistyped: secrets are given by stdin only. */
export function holdsKey(text: string): boolean {
  return WHOLE_KEY.test(text);
}

/** Hides what looks like a key, for logs: people put keys in paths, and the log must not learn them. */
export function maskKeys(text: string): string {
  return text.includes("_") ? text.replace(KEY_SHAPED, "$1…") : text;
}

/** From here on a key is its digest: the raw key is never stored, cached or logged. */
export function digestKey(token: string): string {
  return hash("sha256", token, "hex");
}
