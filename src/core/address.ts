import { BlockList, isIP, isIPv4 } from "node:net";

/** Whether an address lies in one of a set of networks. */
export type AddressMatcher = (address: string) => boolean;

/**
 * Builds a matcher for CIDRs that `isNetwork` accepted. A bare address is a network of one address.
 */
export function addressMatcher(cidrs: readonly string[]): AddressMatcher {
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
 * Whether the text is an address, or an address with a prefix length: 10.0.0.0/8, 2001:db8::/32.
 */
export function isCidr(text: string): boolean {
  const [, address = "", bits] = /^([0-9A-Fa-f:.]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const version = isIP(address);
  return version !== 0 && Number(bits ?? 0) <= (version === 6 ? 128 : 32);
}

/** Port 0 asks for any free port. */
export type HostPort = { readonly host: string; readonly port: number };

/** Formats a host and a port for people: IPv6 in brackets. */
export function formatHostPort({ host, port }: HostPort): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Whether only this machine can reach it. */
export function isLoopback({ host }: HostPort): boolean {
  return host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));
}
