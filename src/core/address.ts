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

/** Whether the text is an address, or one with a prefix length: 10.0.0.0/8, 2001:db8::/32. */
export function isCidr(text: string): boolean {
  const [, address = "", bits] = /^([0-9A-Fa-f:.]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const version = isIP(address);
  return version !== 0 && Number(bits ?? 0) <= (version === 6 ? 128 : 32);
}

/** Whether every address of a network lies in one network of a list. */
export function isWithin(cidr: string, networks: readonly string[]): boolean {
  const inner = canonicalNetwork(cidr);
  const [address = ""] = inner.split("/");
  return networks.some((network) => {
    const outer = canonicalNetwork(network);
    const isSameFamily = outer.includes(":") === inner.includes(":");
    return isSameFamily && bitsOf(inner) >= bitsOf(outer) && addressMatcher([outer])(address);
  });
}

/** One spelling for a network. A network of mapped addresses is that of their IPv4 addresses. */
export function canonicalNetwork(cidr: string): string {
  const [address = ""] = cidr.split("/");
  const bits = bitsOf(cidr);
  const plain = bits < MAPPED_BITS ? address : normalizeAddress(address);
  if (plain.includes(":")) {
    const words = wordsOf(plain).map((word, i) => word - beyond(word, i, { bits, width: 16 }));
    return `${words.map((word) => word.toString(16)).join(":")}/${bits}`;
  }
  const left = address.includes(":") ? bits - MAPPED_BITS : bits;
  const bytes = plain.split(".").map(Number);
  return `${bytes.map((byte, i) => byte - beyond(byte, i, { bits: left, width: 8 })).join(".")}/${left}`;
}

/** The part of the i-th word of an address that lies behind the prefix. */
function beyond(
  word: number,
  i: number,
  { bits, width }: { readonly bits: number; readonly width: number },
): number {
  return word % 2 ** Math.min(width, Math.max(0, (i + 1) * width - bits));
}

/** Whether the address of a CIDR is not the first one of its network. */
export function hasBitsBeyondPrefix(cidr: string): boolean {
  const [address = ""] = cidr.split("/");
  const isIPv6 = address.includes(":");
  const words = isIPv6 ? wordsOf(address) : address.split(".").map(Number);
  const width = isIPv6 ? 16 : 8;
  const bits = bitsOf(cidr);
  return words.some((word, i) => beyond(word, i, { bits, width }) !== 0);
}

/** The prefix length of a CIDR. A bare address is a network of one address. */
function bitsOf(cidr: string): number {
  const [address = "", length] = cidr.split("/");
  return Number(length ?? (isIPv6(address) ? 128 : 32));
}

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
  return isMapped ? embeddedIPv4(words) : plain;
}

/** The IPv4 address in the last two of the eight words of an IPv6 address. */
function embeddedIPv4(words: readonly number[]): string {
  const bytes = words.slice(6).flatMap((word) => [word >> 8, word & 0xff]);
  return bytes.join(".");
}

/** The eight words of an IPv6 address, whatever its zone. */
function wordsOf(address: string): number[] {
  const [plain = ""] = address.split("%");
  const [head = "", tail] = plain.split("::");
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

/** The words of 64:ff9b::/96, in which a translator shows IPv4 clients to IPv6 (RFC 6052 2.1). */
const TRANSLATED = [0x64, 0xff9b, 0, 0, 0, 0];

/**
 * The group whose failures count together: an IPv4 address, or an IPv6 /64, because one client has
 * many addresses in it. A translated IPv4 address counts as IPv4, because all of them are in one /64.
 */
export function addressGroup(address: string): string {
  if (isIP(address) !== 6) return address;
  const words = wordsOf(address);
  const isTranslated = TRANSLATED.every((word, i) => word === words[i]);
  return isTranslated ? embeddedIPv4(words) : networkName(words);
}

/** The /64 of an IPv6 address, as the group of its addresses is named. */
export function networkOf(address: string): string {
  return networkName(wordsOf(address));
}

function networkName(words: readonly number[]): string {
  const hex = words.slice(0, 4).map((word) => word.toString(16));
  return `${hex.join(":")}::/64`;
}

/** Port 0 asks for any free port. */
export type HostPort = { readonly host: string; readonly port: number };

/** Formats a host and a port for people: IPv6 in brackets. */
export function formatHostPort({ host, port }: HostPort): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** The place that a URL of http or https leads to, an address of IPv6 without its brackets. */
export function hostPortOf({ hostname, port, protocol }: URL): HostPort {
  const usual = protocol === "https:" ? 443 : 80;
  return { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || usual) };
}

/** A host in its one form: IPv4-mapped IPv6 as IPv4, other IPv6 at its shortest. */
export function canonicalHost(host: string): string {
  return shortestHost(normalizeAddress(host));
}

/** An address of IPv6 in its shortest form, as browsers send it (RFC 5952); any other host as it is. */
function shortestHost(host: string): string {
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
