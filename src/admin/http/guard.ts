import { hash, timingSafeEqual } from "node:crypto";
import { isIP } from "node:net";
import { canonicalHost } from "../../core/address.ts";
import { normalizeHost } from "../../core/http/head.ts";
import { type AdminResponse, problemResponse } from "./response.ts";

/** The fields that the guard checks, from rawHeaders, because merged headers hide repetition. */
export type GuardFields = {
  readonly host: string;
  readonly origin: string | undefined;
  readonly fetchSite: string | undefined;
  readonly authorization: string | undefined;
  readonly contentType: string | undefined;
};

/** The parser itself refuses a repeated Content-Length. */
const ONCE = ["authorization", "content-type", "origin", "sec-fetch-site", "transfer-encoding"];

/**
 * Requires exactly one Host, and at most one of each other field that is checked; else undefined.
 */
export function readGuardFields(rawHeaders: readonly string[]): GuardFields | undefined {
  const values = (name: string) =>
    rawHeaders.filter((_, i) => i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === name);
  const [host, ...others] = values("host");
  if (host === undefined || others.length > 0) return undefined;
  if (ONCE.some((name) => values(name).length > 1)) return undefined;
  return {
    host,
    origin: values("origin")[0],
    fetchSite: values("sec-fetch-site")[0],
    authorization: values("authorization")[0],
    contentType: values("content-type")[0],
  };
}

/**
 * The address of the listener, the further names that it accepts (in lower case, without a port),
 * and its token, which is "" if none is set.
 */
export type GuardOptions = {
  readonly host: string;
  readonly hosts: readonly string[];
  readonly token: string;
};

/**
 * Refuses requests that may not use /api: those of web pages of other sites (a rebound name or a
 * foreign origin), and, if a token is set, those without the token. Undefined lets the request pass
 * (docs/reference/admin.md#guard).
 */
export function checkAccess(fields: GuardFields, guarded: GuardOptions): AdminResponse | undefined {
  if (!isOwnHost(fields.host, guarded)) {
    return problemResponse("host_refused", "This Host is not a name of the admin listener");
  }
  const { origin, fetchSite } = fields;
  // Images and frames of a page of another origin send none, but a browser says where they are from.
  const isForeign =
    origin === undefined
      ? fetchSite === "cross-site" || fetchSite === "same-site"
      : fetchSite === "cross-site" || !isOwnOrigin(origin, fields.host, guarded);
  if (isForeign) {
    return problemResponse("origin_refused", "Requests from pages of another origin are refused");
  }
  if (guarded.token === "") return undefined;
  const realm = 'Bearer realm="tollgate admin"';
  if (fields.authorization === undefined) {
    const message = "The admin token is required: send Authorization: Bearer <admin token>";
    return problemResponse("token_missing", message, { fields: ["WWW-Authenticate", realm] });
  }
  if (isToken(fields.authorization, guarded.token)) return undefined;
  return problemResponse("token_invalid", "The admin token is not valid", {
    fields: ["WWW-Authenticate", `${realm}, error="invalid_token"`],
  });
}

const LOOPBACK = new Set(["localhost", "127.0.0.1", "::1"]);
const ANY_ADDRESS = new Set(["0.0.0.0", "::"]);

/**
 * Whether the host is the listener's: its address, a name of loopback or one of `admin.hosts`, with
 * any port or none, because a forwarded port differs. A listener on all addresses cannot know its
 * other names. There any IP address passes, because an address cannot be rebound, and any other
 * name is refused. Such a listener always has a token.
 */
function isOwnHost(host: string, guarded: GuardOptions): boolean {
  if (!/^(\[[0-9a-f:.]+\]|[^:]+)(:\d{1,5})?$/i.test(host)) return false;
  const name = normalizeHost(host);
  const bare = canonicalHost(name.replace(/^\[|\]$/g, ""));
  if (LOOPBACK.has(bare) || bare === guarded.host || guarded.hosts.includes(name)) return true;
  return ANY_ADDRESS.has(guarded.host) && isIP(bare) !== 0;
}

/**
 * Whether an origin is the page of this listener. Its host is that of the request, over http or
 * https, because a proxy in front may terminate TLS. Over https it may also be a name of
 * `admin.hosts`, because such a proxy may change Host. A browser omits the default port of the
 * scheme from an Origin (RFC 6454 6.1).
 */
function isOwnOrigin(origin: string, host: string, { hosts }: GuardOptions): boolean {
  const [, scheme, authority = ""] = /^(https?):\/\/(.+)$/.exec(origin.toLowerCase()) ?? [];
  if (scheme === undefined) return false;
  const usual = scheme === "https" ? ":443" : ":80";
  const own = host.toLowerCase();
  if (authority === own || `${authority}${usual}` === own) return true;
  return scheme === "https" && hosts.includes(normalizeHost(authority));
}

/** Compares digests in constant time, so that neither content nor length of the token leaks. */
function isToken(authorization: string, token: string): boolean {
  const given = /^bearer +(\S.*)$/i.exec(authorization)?.[1] ?? "";
  const digest = (bytes: Buffer) => hash("sha256", bytes, "buffer");
  return timingSafeEqual(digest(Buffer.from(given, "latin1")), digest(Buffer.from(token)));
}
