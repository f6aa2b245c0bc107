import { isIP } from "node:net";
import { type AddressMatcher, addressMatcher } from "../../core/address.ts";

/**
 * Normalizes an address as far as matters. IPv4-mapped IPv6 in any spelling becomes IPv4, because
 * otherwise all IPv4 clients of a dual-stack socket would share a bucket. The zone is removed,
 * because it is a name of this machine and no part of the address (RFC 4007 11).
 */
export function normalizeAddress(address: string | undefined): string {
  if (address === undefined || !address.includes(":")) return address ?? "";
  const [plain = ""] = address.split("%");
  if (!/ffff:/i.test(plain) || isIP(plain) !== 6) return plain;
  const words = wordsOf(plain);
  const isMapped = words.slice(0, 5).every((word) => word === 0) && words[5] === 0xffff;
  const bytes = words.slice(6).flatMap((word) => [word >> 8, word & 0xff]);
  return isMapped ? bytes.join(".") : plain;
}

/** The eight words of an IPv6 address. */
function wordsOf(address: string): number[] {
  const [head = "", tail] = address.split("::");
  const read = (part: string) => {
    return part.split(":").flatMap((word) => {
      if (word === "") return [];
      const [a = 0, b = 0, c = 0, d = 0] = word.split(".").map(Number);
      return word.includes(".") ? [a * 256 + b, c * 256 + d] : [Number.parseInt(word, 16)];
    });
  };
  const [left, right] = [read(head), read(tail ?? "")];
  return [...left, ...Array(Math.max(0, 8 - left.length - right.length)).fill(0), ...right];
}

export type TrustedProxyMatcher = AddressMatcher;

/** Reads CIDRs that the configuration has checked. A bare address is a network of one address. */
export const trustedProxyMatcher: (cidrs: readonly string[]) => TrustedProxyMatcher =
  addressMatcher;

/**
 * The client's address: the peer's, or from a trusted proxy the rightmost address of
 * X-Forwarded-For that is not a trusted proxy itself. Members to the left of a malformed one are
 * ignored.
 */
export function clientAddress(
  peer: string,
  forwardedFor: string | undefined,
  isTrusted: TrustedProxyMatcher,
): string {
  if (forwardedFor === undefined || !isTrusted(peer)) return peer;
  let client = peer;
  for (const member of forwardedFor.split(",").reverse()) {
    const address = normalizeAddress(withoutPort(member.trim()));
    if (isIP(address) === 0) return client;
    client = address;
    if (!isTrusted(address)) return client;
  }
  return client;
}

function withoutPort(member: string): string {
  const bracketed = /^\[([^\]]+)\](?::\d+)?$/.exec(member);
  if (bracketed !== null) return bracketed[1] as string;
  return /^[\d.]+:\d+$/.test(member) ? member.slice(0, member.indexOf(":")) : member;
}

/**
 * The group whose failures count together: an IPv4 address, or an IPv6 /64, because one client has
 * many addresses in it.
 */
export function addressGroup(address: string): string {
  if (isIP(address) !== 6) return address;
  const words = wordsOf(address.split("%")[0] as string).slice(0, 4);
  return `${words.map((word) => word.toString(16)).join(":")}::/64`;
}
