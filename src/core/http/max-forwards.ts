import { fieldValues, type RequestHead } from "./head.ts";

/**
 * How often an OPTIONS may still be forwarded, as its Max-Forwards says; undefined if it does not
 * say, or says no number. Other methods may leave the field alone, and it goes on as it came (RFC
 * 9110 7.6.2).
 */
export function forwardsLeft({
  method,
  rawHeaders,
}: Pick<RequestHead, "method" | "rawHeaders">): number | undefined {
  if (method !== "OPTIONS") return undefined;
  const [value = "", ...more] = fieldValues(rawHeaders, "max-forwards");
  if (more.length > 0 || !/^\d+$/.test(value)) return undefined;
  return Math.min(Number(value), Number.MAX_SAFE_INTEGER);
}
