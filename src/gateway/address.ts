import { BlockList, isIP } from "node:net";

/** IPv4-mapped IPv6 is IPv4: else all IPv4 clients behind one socket family would share a bucket. */
export function plainAddress(address: string | undefined): string {
  if (address === undefined) return "";
  return address.startsWith("::ffff:") && isIP(address.slice(7)) === 4 ? address.slice(7) : address;
}

export type TrustedProxies = (address: string) => boolean;

/** Reads CIDRs as the configuration checked them; a bare address is a network of one. */
export function trustProxies(cidrs: readonly string[]): TrustedProxies {
  if (cidrs.length === 0) return () => false;
  const list = new BlockList();
  for (const cidr of cidrs) {
    const [network = "", bits] = cidr.split("/");
    const family = isIP(network) === 6 ? "ipv6" : "ipv4";
    list.addSubnet(network, Number(bits ?? (family === "ipv6" ? 128 : 32)), family);
  }
  return (address) => {
    const version = isIP(address);
    return version !== 0 && list.check(address, version === 6 ? "ipv6" : "ipv4");
  };
}

/**
 * The client's address: the peer's, or, from a trusted proxy, the rightmost of X-Forwarded-For that
 * is not a trusted proxy itself. What lies left of a malformed member is nobody's word.
 */
export function clientAddress(
  peer: string,
  forwardedFor: string | undefined,
  isTrusted: TrustedProxies,
): string {
  if (forwardedFor === undefined || !isTrusted(peer)) return peer;
  let client = peer;
  for (const member of forwardedFor.split(",").reverse()) {
    const address = plainAddress(withoutPort(member.trim()));
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

/** Whose failures count together: an IPv4 address, or an IPv6 /64, of which one client has many. */
export function addressGroup(address: string): string {
  if (isIP(address) !== 6) return address;
  const [head = "", tail] = address.split("%")[0]?.split("::") ?? [];
  const left = head === "" ? [] : head.split(":");
  const right = tail === undefined || tail === "" ? [] : tail.split(":");
  const zeros = tail === undefined ? [] : Array(8 - left.length - right.length).fill("0");
  const groups = [...left, ...zeros, ...right].slice(0, 4);
  return `${groups.map((group) => Number.parseInt(group, 16).toString(16)).join(":")}::/64`;
}
