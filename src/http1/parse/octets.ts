/** The bytes of HTTP/1.1 syntax (RFC 9110 5.5 and 5.6.2, RFC 9112 3 and 4). */
export const CR = 0x0d;
export const LF = 0x0a;
export const SP = 0x20;
export const HTAB = 0x09;
export const COLON = 0x3a;

/** 1 for each byte of a token: methods, field names, chunk extensions (RFC 9110 5.6.2). */
export const TOKEN_BYTES = new Uint8Array(256);
/** 1 for each byte of a field value or a reason phrase: HTAB, SP, visible, and obs-text. */
export const FIELD_VALUE_BYTES = new Uint8Array(256);
/** 1 for each byte of a request target, visible ASCII. Its syntax is not checked here. */
export const TARGET_BYTES = new Uint8Array(256);

for (const letter of "!#$%&'*+-.^_`|~") TOKEN_BYTES[letter.charCodeAt(0)] = 1;
for (let byte = 0; byte < 256; byte++) {
  if (/[0-9A-Za-z]/.test(String.fromCharCode(byte))) TOKEN_BYTES[byte] = 1;
  if (byte === HTAB || (byte >= 0x20 && byte !== 0x7f)) FIELD_VALUE_BYTES[byte] = 1;
  if (byte > 0x20 && byte < 0x7f) TARGET_BYTES[byte] = 1;
}

export function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** The value of a hexadecimal digit, or -1. */
export function hexValue(byte: number): number {
  if (isDigit(byte)) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

/** The end of the run of bytes of one kind that begins at `at`, at most `to`. */
export function runEnd(bytes: Buffer, at: number, to: number, kind: Uint8Array): number {
  let i = at;
  while (i < to && kind[bytes[i] as number] === 1) i++;
  return i;
}
