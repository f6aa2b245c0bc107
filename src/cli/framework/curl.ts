import type { EnvironmentConfig } from "../../config/config.ts";
import { formatHostPort, type HostPort } from "../../core/address.ts";
import { examplePath } from "../../core/http/route.ts";

type CurlTarget = Pick<EnvironmentConfig, "listen" | "hosts" | "routes" | "examplePath"> & {
  readonly tls?: unknown;
};

/** A command that tries the key and works when pasted into a shell. */
export function curlLine(
  { listen, hosts, routes, tls, examplePath: told }: CurlTarget,
  key: string,
  origin: string = originOf(listen, tls === undefined ? "http" : "https"),
): string {
  // The base path if no operation is described.
  const path =
    told ?? examplePath(routes.operations ?? []) ?? `${routes.basePath.replace(/\/$/, "")}/`;
  const { named, reached } = byName(origin, hosts[0]);
  return `curl -i${named} -H ${quoted(`Authorization: Bearer ${key}`)} ${quoted(`${reached}${path}`)}`;
}

/** A word of a shell, which replaces some characters inside double quotes, and none inside single. */
function quoted(word: string): string {
  return /[$`"\\!]/.test(word) ? `'${word.replaceAll("'", "'\\''")}'` : `"${word}"`;
}

/** With TLS the name is in the URL, as in the certificate; without TLS it is in Host. */
function byName(origin: string, host: string | undefined) {
  if (host === undefined) return { named: "", reached: origin };
  const { protocol, hostname, port } = new URL(origin);
  if (protocol === "http:") return { named: ` -H ${quoted(`Host: ${host}`)}`, reached: origin };
  const at = port === "" ? "443" : port;
  return {
    named: ` --resolve ${quoted(`${host}:${at}:${hostname}`)}`,
    reached: `https://${host}:${at}`,
  };
}

/** The origin of a listener. For a listener on every address it is on loopback. */
export function originOf({ host, port }: HostPort, scheme: "http" | "https" = "http"): string {
  const reached = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `${scheme}://${formatHostPort({ host: reached, port })}`;
}
