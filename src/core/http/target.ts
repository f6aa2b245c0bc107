import { accept, type Result, refuse } from "../refusal.ts";

/**
 * `raw` is forwarded byte for byte. `path` is the part before "?", in its normal form; routes are
 * matched on it.
 */
export type Target = { readonly raw: string; readonly path: string };

/** The target of `OPTIONS *`: no path, but the server itself. */
const SERVER: Target = { raw: "*", path: "*" };

type TargetInput = { readonly method: string; readonly target: string; readonly host: string };

/** The schemes of listeners, with the default port that each leaves out. */
const PORTS = { http: /:(?:80)?$/, https: /:(?:443)?$/ } as const;
type Scheme = keyof typeof PORTS;

const PRINTABLE = /^[\x21\x22\x24-\x7e]+$/;
const ESCAPE = /%[0-9A-Fa-f]{2}/g;
const UNRESERVED = /[A-Za-z0-9_~-]/;
const AMBIGUOUS = /\\|\/\/|\/\.\.?(?:[/;]|$)|%(?:2e|2f|5c|25|00)/i;

/**
 * Validates a request target (docs/reference/edge.md#target). It is in origin-form, or in
 * absolute-form with the listener's scheme and the same authority as Host. It is printable ASCII
 * without "#". The path contains nothing that another parser could read differently: dot segments,
 * double or encoded slashes, backslashes, doubled or broken escapes. `OPTIONS *` asks about the
 * server itself, as does OPTIONS of an authority alone (RFC 9112 3.2.4). Two spellings of one path
 * are forwarded as one, because the backend's router would decode them (RFC 3986 6.2.2).
 */
export function validateTarget(
  { method, target, host }: TargetInput,
  scheme: Scheme,
): Result<Target> {
  const isOptions = method === "OPTIONS";
  if (isOptions && target === "*") return accept(SERVER);
  if (!PRINTABLE.test(target)) return refuse("bad_request", "target is not printable ASCII");
  const form = originForm(target, host, scheme);
  if (form === undefined) return refuse("bad_request", "not this host's target");
  if (isOptions && form === "") return accept(SERVER);
  const raw = form || "/";
  const path = pathOf(raw);
  if (AMBIGUOUS.test(path)) return refuse("bad_request", "ambiguous path");
  if (!path.includes("%")) return accept({ raw, path });
  if (!decodes(path)) return refuse("bad_request", "ambiguous path");
  const normal = path.replace(ESCAPE, normalEscape);
  return accept({ raw: `${normal}${raw.slice(path.length)}`, path: normal });
}

/** The part of a target before its query. */
export function pathOf(target: string): string {
  const question = target.indexOf("?");
  return question === -1 ? target : target.slice(0, question);
}

function normalEscape(escaped: string): string {
  const character = String.fromCharCode(Number.parseInt(escaped.slice(1), 16));
  return UNRESERVED.test(character) ? character : escaped.toUpperCase();
}

/**
 * The target for the backend. The stripped prefix may match in any spelling. The text after it is
 * forwarded byte for byte, behind the prefix that is added. If no path is left, it becomes "/".
 */
export function upstreamTarget(
  raw: string,
  { stripPrefix, addPrefix }: { readonly stripPrefix: string; readonly addPrefix: string },
): string {
  if (stripPrefix === "" && addPrefix === "") return raw;
  const rest = raw.slice(strippedLength(raw, stripPrefix));
  return `${addPrefix}${rest.startsWith("/") ? "" : "/"}${rest}`;
}

/**
 * The path without the slash at its end, if that slash is all that follows the stripped prefix:
 * both are forwarded as the same target.
 */
export function withoutStrippedSlash(
  path: string,
  { stripPrefix }: { readonly stripPrefix: string },
): string {
  if (stripPrefix === "" || !path.endsWith("/")) return path;
  const end = strippedLength(path, stripPrefix);
  return end === path.length - 1 ? path.slice(0, end) : path;
}

/** The length of the prefix that is stripped, in the spelling that the target has. */
export function strippedLength(raw: string, stripPrefix: string): number {
  const pathEnd = pathOf(raw).length;
  let end = 0;
  for (let left = stripPrefix.split("/").length - 1; left > 0; left--) {
    end = raw.indexOf("/", end + 1);
    if (end === -1 || end > pathEnd) return pathEnd;
  }
  return end;
}

const ABSOLUTE = /^(https?):\/\/([^/?]+)(.*)/i;

/** The path and query of a target for this host; "" if it has neither. */
function originForm(target: string, host: string, scheme: Scheme): string | undefined {
  if (target.startsWith("/")) return target;
  const match = ABSOLUTE.exec(target);
  if (match === null) return undefined;
  const [named, authority, rest] = match.slice(1) as [string, string, string];
  if (named.toLowerCase() !== scheme) return undefined;
  if (withoutDefaultPort(authority, scheme) !== withoutDefaultPort(host, scheme)) return undefined;
  return rest.startsWith("?") ? `/${rest}` : rest;
}

function withoutDefaultPort(authority: string, scheme: Scheme): string {
  return authority.replace(PORTS[scheme], "").toLowerCase();
}

/** Whether all escapes are well-formed and decode to UTF-8. */
export function decodes(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
