import { isIP } from "node:net";
import { type AddressMatcher, canonicalHost } from "../../core/address.ts";

/**
 * The client's address: the peer's, or from a trusted proxy the rightmost address of
 * X-Forwarded-For that is not a trusted proxy itself. Members to the left of a malformed one are
 * ignored.
 */
export function clientAddress(
  peer: string,
  forwardedFor: string | undefined,
  isTrusted: AddressMatcher,
): string {
  if (forwardedFor === undefined || !isTrusted(peer)) return peer;
  let client = peer;
  for (const member of forwardedFor.split(",").reverse()) {
    const address = canonicalHost(withoutPort(member.trim()));
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
