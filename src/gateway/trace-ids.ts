import { randomFillSync } from "node:crypto";

/** Hexadecimal digits of a trace id and a parent id. */
const DIGITS = 48;
const AT_ONCE = 256;

const bytes = Buffer.alloc((DIGITS / 2) * AT_ONCE);
let digits = "";
let used = AT_ONCE;

/** 48 random hexadecimal digits, taken from a stock: a call for each request costs ten times more. */
export function traceDigits(): string {
  if (used === AT_ONCE) {
    digits = randomFillSync(bytes).toString("hex");
    used = 0;
  }
  used += 1;
  return digits.slice((used - 1) * DIGITS, used * DIGITS);
}
