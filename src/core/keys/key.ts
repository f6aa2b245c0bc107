import { hash } from "node:crypto";
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

/** The remainders of CRC-32 for each octet, least significant bit first, as in zlib. */
const CRC_REMAINDERS = Int32Array.from({ length: 256 }, (_, octet) => {
  let rest = octet;
  for (let bit = 0; bit < 8; bit++) rest = rest & 1 ? (rest >>> 1) ^ 0xedb88320 : rest >>> 1;
  return rest;
});

/** CRC-32 of the first octets. A call of zlib for some forty of them takes twice as long. */
function crc32(octets: Uint8Array, length: number): number {
  let rest = -1;
  for (let i = 0; i < length; i++) {
    rest = (rest >>> 8) ^ (CRC_REMAINDERS[(rest ^ (octets[i] as number)) & 0xff] as number);
  }
  return ~rest >>> 0;
}

/** CRC-32 (as in zlib) of the whole body, in base62, padded with 0 to 6 characters. */
export function checksum(body: string): string {
  const octets = Buffer.from(body);
  let rest = crc32(octets, octets.length);
  let text = "";
  for (let i = 0; i < CHECKSUM_LENGTH; i++) {
    text = BASE62[rest % BASE62.length] + text;
    rest = Math.floor(rest / BASE62.length);
  }
  return text;
}

/**
 * The octets of the token that is being checked, at most 102 (docs/reference/keys.md#key-shape). V8
 * reads them four times as fast as those of a text.
 */
const checked = Buffer.alloc(128);

/** Checks shape, tag and checksum (docs/reference/keys.md#key-shape). Looks nothing up. */
export function checkKeyFormat(token: string, prefix: string, tag: string): Result<string> {
  const start = `${prefix}_${tag}_`;
  if (!token.startsWith(start)) return refuse("key_invalid", "another prefix or environment");
  const bodyLength = start.length + SECRET_LENGTH;
  if (token.length !== bodyLength + CHECKSUM_LENGTH) return refuse("key_invalid", "wrong length");
  const isWhole = checked.write(token) === token.length;
  // A character that takes two octets is no digit, and would have the last ones left out.
  const fault = isWhole ? octetsFault(start.length, bodyLength) : "not base62";
  // No key stays in memory for longer than its request takes.
  checked.fill(0, 0, token.length);
  return fault === undefined ? accept(token) : refuse("key_invalid", fault);
}

/** Why the octets that are being checked are no key, from the end of the tag on; undefined if they are. */
function octetsFault(startAt: number, bodyLength: number): string | undefined {
  // Compared as numbers, because encoding the checksum for each request costs as much as hashing
  // the key.
  let sum = 0;
  for (let i = startAt; i < bodyLength + CHECKSUM_LENGTH; i++) {
    const digit = DIGITS[checked[i] as number] as number;
    if (digit === NO_DIGIT) return "not base62";
    if (i >= bodyLength) sum = sum * BASE62.length + digit;
  }
  return sum === crc32(checked, bodyLength) ? undefined : "wrong checksum";
}

/** `prefix`, then at least `min` of A-Z a-z 0-9 _ - (docs/reference/keys.md#foreign-keys). */
export type ForeignKeyFormat = { readonly prefix: string; readonly min: number };

/** Whether a token has one of these shapes. */
export function matchesForeignFormat(token: string, shapes: readonly ForeignKeyFormat[]): boolean {
  return shapes.some(({ prefix, min }) => {
    const rest = token.slice(prefix.length);
    return token.startsWith(prefix) && rest.length >= min && /^[A-Za-z0-9_-]+$/.test(rest);
  });
}

/** Checks a Tollgate key by shape, tag and checksum, any other by the shapes of foreign keys. */
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

const KEY_SHAPED = /(?<=[a-z0-9]_[a-z0-9]+_)[0-9A-Za-z]{20,}/g;
const WHOLE_KEY = /[a-z0-9]_[a-z0-9]+_[0-9A-Za-z]{36}(?![0-9A-Za-z])/;

/** Whether a text contains a whole key, or a mistyped one: secrets are accepted by stdin only. */
export function containsKey(text: string, shapes: readonly ForeignKeyFormat[] = []): boolean {
  return WHOLE_KEY.test(text) || shapes.some((shape) => foreignPattern(shape).test(text));
}

/**
 * Hides keys in a text for the log, because people put keys in paths and a log must not contain
 * them. All shapes are looked for in the text as it came: a part of a key may have another shape,
 * and would hide the rest of the key from its own.
 */
export function maskKeys(text: string, shapes: readonly ForeignKeyFormat[] = []): string {
  const secrets = text.includes("_") ? secretsOf(text, KEY_SHAPED) : [];
  for (const shape of shapes) {
    if (text.includes(shape.prefix)) secrets.push(...secretsOf(text, foreignPattern(shape)));
  }
  let masked = "";
  let end = 0;
  for (const secret of secrets.sort((a, b) => a.start - b.start)) {
    if (end === 0 || secret.start > end) masked += `${text.slice(end, secret.start)}…`;
    end = Math.max(end, secret.end);
  }
  return masked + text.slice(end);
}

/** The matches of a pattern that looks back at the start of a key, which another key may end with. */
function secretsOf(
  text: string,
  pattern: RegExp,
): { readonly start: number; readonly end: number }[] {
  return [...text.matchAll(pattern)].map(({ 0: secret, index }) => {
    return { start: index, end: index + secret.length };
  });
}

/** The same for a path as it came: any character of a key may be an escape, also of an escape. */
export function maskKeysInPath(path: string, shapes: readonly ForeignKeyFormat[] = []): string {
  let plain = path;
  for (let round = 0; round < ROUNDS_MAX && plain.includes("%"); round++) {
    plain = plain.replaceAll("%25", "%").replace(ESCAPE, unescaped);
  }
  const masked = maskKeys(plain, shapes);
  return masked === plain ? path : masked;
}

const ESCAPE = /%([0-9A-Fa-f]{2})/g;
/** Escapes of escapes that people may have written by mistake, and one more. */
const ROUNDS_MAX = 4;

/** Every visible character may stand in a prefix and be an escape; `%` is decoded ahead. */
function unescaped(text: string, octet: string): string {
  const character = String.fromCharCode(Number.parseInt(octet, 16));
  return /[!-$&-~]/.test(character) ? character : text;
}

function foreignPattern({ prefix, min }: ForeignKeyFormat): RegExp {
  const escaped = prefix.replace(/[^A-Za-z0-9_]/g, "\\$&");
  return new RegExp(`(?<=${escaped})[A-Za-z0-9_-]{${min},}`, "g");
}

/** From here on a key is its digest: the raw key is never stored, cached or logged. */
export function digestKey(token: string): string {
  return hash("sha256", token, "hex");
}
