import { accept, type Judged, refuse } from "../refusal.ts";

/** `whole` is forwarded byte for byte; `path` is the part before "?", which routes are matched on. */
export type Target = { readonly whole: string; readonly path: string };

type Asked = { readonly method: string; readonly url: string; readonly host: string };

const PRINTABLE = /^[\x21\x22\x24-\x7e]+$/;
const AMBIGUOUS = /\\|\/\/|\/\.\.?(?:\/|$)|%(?:2e|2f|5c|25|00)/i;

/**
 * Judges a request target (docs/reference/edge.md#target): origin-form, or absolute-form for
 * http:// and the same authority as Host. Printable ASCII without "#". In the path nothing that
 * another parser could read differently: dot segments, double or encoded slashes, backslashes,
 * doubled or broken escapes. `OPTIONS *` asks about the server itself.
 */
export function judgeTarget({ method, url, host }: Asked): Judged<Target> {
  if (url === "*" && method === "OPTIONS") return accept({ whole: url, path: url });
  if (!PRINTABLE.test(url)) return refuse("bad_request", "target is not printable ASCII");
  const whole = originForm(url, host);
  if (whole === undefined) return refuse("bad_request", "not this host's target");
  const question = whole.indexOf("?");
  const path = question === -1 ? whole : whole.slice(0, question);
  if (AMBIGUOUS.test(path) || (path.includes("%") && isBroken(path))) {
    return refuse("bad_request", "ambiguous path");
  }
  return accept({ whole, path });
}

function originForm(url: string, host: string): string | undefined {
  if (url.startsWith("/")) return url;
  const match = /^http:\/\/([^/?]+)(.*)/i.exec(url);
  if (match === null) return undefined;
  const [authority, rest] = match.slice(1) as [string, string];
  if (withoutDefaultPort(authority) !== withoutDefaultPort(host)) return undefined;
  return rest.startsWith("/") ? rest : `/${rest}`;
}

function withoutDefaultPort(authority: string): string {
  return authority.replace(/:(?:80)?$/, "").toLowerCase();
}

/** Escapes that are malformed, or do not decode to UTF-8. */
function isBroken(path: string): boolean {
  try {
    decodeURIComponent(path);
    return false;
  } catch {
    return true;
  }
}
