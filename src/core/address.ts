import { BlockList, isIP, isIPv4, isIPv6 } from "node:net";

/** Whether an address lies in one of a set of networks. */
export type AddressMatcher = (address: string) => boolean;

/** The length of ::ffff:0:0/96, the network of IPv4-mapped addresses (RFC 4291 2.5.5.2). */
const MAPPED_BITS = 96;

/**
 * Builds a matcher for CIDRs that `isCidr` accepted. A bare address is a network of one address. An
 * IPv4 address matches networks of IPv4 and of mapped addresses only (docs/reference/http.md#client-address).
 */
export function addressMatcher(cidrs: readonly string[]): AddressMatcher {
  if (cidrs.length === 0) return () => false;
  const all = new BlockList();
  // Node takes an IPv4 address for a mapped one, so a shorter network of IPv6, such as ::/0, would
  // have every IPv4 address.
  const ofIPv4 = new BlockList();
  for (const cidr of cidrs) {
    const [network = ""] = cidr.split("/");
    const family = isIP(network) === 6 ? "ipv6" : "ipv4";
    const bits = bitsOf(cidr);
    all.addSubnet(network, bits, family);
    if (family === "ipv4" || bits >= MAPPED_BITS) ofIPv4.addSubnet(network, bits, family);
  }
  return (address) => {
    const version = isIP(address);
    return version === 6 ? all.check(address, "ipv6") : version === 4 && ofIPv4.check(address);
  };
}

/**
 * Whether the text is an address, or an address with a prefix length: 10.0.0.0/8, 2001:db8::/32.
 */
export function isCidr(text: string): boolean {
  const [, address = "", bits] = /^([0-9A-Fa-f:.]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const version = isIP(address);
  return version !== 0 && Number(bits ?? 0) <= (version === 6 ? 128 : 32);
}

/** Whether every address of a network lies in one network of a list. */
export function isWithin(cidr: string, networks: readonly string[]): boolean {
  const [address = ""] = cidr.split("/");
  return networks.some((network) => {
    const isSameFamily = network.includes(":") === cidr.includes(":");
    return isSameFamily && bitsOf(cidr) >= bitsOf(network) && addressMatcher([network])(address);
  });
}

/** The prefix length of a CIDR. A bare address is a network of one address. */
function bitsOf(cidr: string): number {
  const [address = "", length] = cidr.split("/");
  return Number(length ?? (isIPv6(address) ? 128 : 32));
}

/** Port 0 asks for any free port. */
export type HostPort = { readonly host: string; readonly port: number };

/** Formats a host and a port for people: IPv6 in brackets. */
export function formatHostPort({ host, port }: HostPort): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** An address of IPv6 in its shortest form, as browsers send it (RFC 5952); any other host as it is. */
export function shortestHost(host: string): string {
  return isIPv6(host) ? new URL(`http://[${host}]`).hostname.slice(1, -1) : host;
}

/** The host of a URL or a Host field: an address of IPv6, which is in brackets, in its shortest form. */
export function shortestInBrackets(host: string): string {
  return host.startsWith("[") ? `[${shortestHost(host.slice(1, -1))}]` : host;
}

/** Whether only this machine can reach it. */
export function isLoopback({ host }: HostPort): boolean {
  return host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));
}
