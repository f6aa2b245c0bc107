import { hash } from "node:crypto";
import { crc32 } from "node:zlib";
import { accept, type Result, refuse } from "../refusal.ts";

export const BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/** The value of each character as a digit of base62; NO_DIGIT if it is none. */
const NO_DIGIT = 255;
const DIGITS = new Uint8Array(256).fill(NO_DIGIT);
for (let i = 0; i < BASE62.length; i++) DIGITS[BASE62.charCodeAt(i)] = i;
const SECRET_LENGTH = 30;
const CHECKSUM_LENGTH = 6;

/**
 * `<prefix>_<tag>_<30 base62><checksum>`. `random` returns whole numbers from 0 to below `max` and
 * must be cryptographic, because core has no source of randomness.
 */
export function makeKey(prefix: string, tag: string, random: (max: number) => number): string {
  let body = `${prefix}_${tag}_`;
  for (let i = 0; i < SECRET_LENGTH; i++) body += BASE62[random(BASE62.length)];
  return body + checksum(body);
}

/** CRC-32 (as in zlib) of the whole body, in base62, padded with 0 to 6 characters. */
export function checksum(body: string): string {
  let rest = crc32(body);
  let text = "";
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    text = BASE62[rest % BASE62.length] + text;
    rest = Math.floor(rest / BASE62.length);
  }
  return text;
}

/**
 * Checks shape, tag and checksum of a token, without looking anything up
 * (docs/reference/keys.md#key-shape).
 */
export function checkKeyFormat(token: string, prefix: string, tag: string): Result<string> {
  const start = `${prefix}_${tag}_`;
  if (!token.startsWith(start)) return refuse("key_invalid", "another prefix or environment");
  const bodyLength = start.length + SECRET_LENGTH;
  if (token.length !== bodyLength + CHECKSUM_LENGTH) return refuse("key_invalid", "wrong length");
  // Compared as numbers, because encoding the checksum for each request costs as much as hashing
  // the key.
  let sum = 0;
  for (let i = start.length; i < token.length; i++) {
    const digit = DIGITS[token.charCodeAt(i)] ?? NO_DIGIT;
    if (digit === NO_DIGIT) return refuse("key_invalid", "not base62");
    if (i >= bodyLength) sum = sum * BASE62.length + digit;
  }
  if (sum !== crc32(token.slice(0, bodyLength))) return refuse("key_invalid", "wrong checksum");
  return accept(token);
}

/**
 * Keys of another shape: `prefix`, then at least `min` of A-Z a-z 0-9 _ -
 * (docs/reference/keys.md#foreign-keys).
 */
export type ForeignKeyFormat = { readonly prefix: string; readonly min: number };

/** Whether a token has one of these shapes. */
export function matchesForeignFormat(token: string, shapes: readonly ForeignKeyFormat[]): boolean {
  return shapes.some(({ prefix, min }) => {
    const rest = token.slice(prefix.length);
    return token.startsWith(prefix) && rest.length >= min && /^[A-Za-z0-9_-]+$/.test(rest);
  });
}

/**
 * Checks a token without looking anything up: a Tollgate key by shape, tag and checksum, any other
 * by the shapes of foreign keys.
 */
export function checkKeyText(
  token: string,
  {
    keyPrefix,
    keyTag,
    foreignKeys,
  }: {
    readonly keyPrefix: string;
    readonly keyTag: string;
    readonly foreignKeys: readonly ForeignKeyFormat[];
  },
): Result<string> {
  const isOurs = token.startsWith(`${keyPrefix}_`);
  return !isOurs && matchesForeignFormat(token, foreignKeys)
    ? accept(token)
    : checkKeyFormat(token, keyPrefix, keyTag);
}

const KEY_SHAPED = /([a-z0-9]_[a-z0-9]+_)[0-9A-Za-z]{20,}/g;
const WHOLE_KEY = /[a-z0-9]_[a-z0-9]+_[0-9A-Za-z]{36}(?![0-9A-Za-z])/;

/** Whether a text contains a whole key, or a mistyped one: secrets are accepted by stdin only. */
export function containsKey(text: string, shapes: readonly ForeignKeyFormat[] = []): boolean {
  return WHOLE_KEY.test(text) || shapes.some((shape) => foreignPattern(shape).test(text));
}

/**
 * Hides keys in a text for the log, because people put keys in paths and a log must not contain
 * them.
 */
export function maskKeys(text: string, shapes: readonly ForeignKeyFormat[] = []): string {
  let masked = text.includes("_") ? text.replace(KEY_SHAPED, "$1…") : text;
  for (const shape of shapes) {
    if (!masked.includes(shape.prefix)) continue;
    masked = masked.replace(new RegExp(foreignPattern(shape), "g"), `${shape.prefix}…`);
  }
  return masked;
}

function foreignPattern({ prefix, min }: ForeignKeyFormat): RegExp {
  return new RegExp(`${prefix.replace(/[^A-Za-z0-9_]/g, "\\$&")}[A-Za-z0-9_-]{${min},}`);
}

/** From here on a key is its digest: the raw key is never stored, cached or logged. */
export function digestKey(token: string): string {
  return hash("sha256", token, "hex");
}
