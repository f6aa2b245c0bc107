/** How far a number was read (RFC 8259 6). */
export const MINUS = 20;
const ZERO = 21;
const DIGITS = 22;
const POINT = 23;
const FRACTION = 24;
const EXPONENT = 25;
const EXPONENT_SIGN = 26;
const EXPONENT_DIGITS = 27;
/** The byte is no part of the number. */
export const ENDED = -1;

/** Whether a number is being read. */
export function isNumberState(state: number): boolean {
  return state >= MINUS;
}

/** Whether a number may end in this state. */
export function isCompleteNumber(state: number): boolean {
  return state === ZERO || state === DIGITS || state === FRACTION || state === EXPONENT_DIGITS;
}

/** The state after this byte. A number without a sign begins as if a minus had been read. */
export function nextNumberState(state: number, byte: number): number {
  if (byte >= 0x30 && byte <= 0x39) return afterDigit(state, byte === 0x30);
  if (byte === 0x2b || byte === 0x2d) return state === EXPONENT ? EXPONENT_SIGN : ENDED;
  const isInteger = state === ZERO || state === DIGITS;
  if (byte === 0x2e) return isInteger ? POINT : ENDED;
  if ((byte | 0x20) === 0x65) return isInteger || state === FRACTION ? EXPONENT : ENDED;
  return ENDED;
}

function afterDigit(state: number, isZero: boolean): number {
  if (state === MINUS) return isZero ? ZERO : DIGITS;
  if (state === ZERO) return ENDED;
  if (state === POINT) return FRACTION;
  return state === EXPONENT || state === EXPONENT_SIGN ? EXPONENT_DIGITS : state;
}
