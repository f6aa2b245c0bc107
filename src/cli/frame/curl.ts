import type { Environment } from "../../config/config.ts";
import { type Address, formatAddress } from "../../core/http/address.ts";

/** A command that tries the key and works when pasted into a shell. */
export function curlLine(
  { listen, hosts, routes }: Environment,
  key: string,
  origin: string = originOf(listen),
): string {
  const [host] = hosts;
  const named = host === undefined ? "" : ` -H "Host: ${host}"`;
  // The first operation that needs nothing but a GET; the base path where none is described.
  const plain = routes.operations?.find(
    ({ method, segments, lifecycle }) =>
      method === "GET" && !segments.includes(undefined) && !lifecycle.deprecated,
  );
  const path = plain?.template ?? `${routes.basePath.replace(/\/$/, "")}/`;
  return `curl -i${named} -H "Authorization: Bearer ${key}" "${origin}${path}"`;
}

/** The origin under which a listener is reached: one on every address is reached on loopback. */
export function originOf({ host, port }: Address): string {
  const reached = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${formatAddress({ host: reached, port })}`;
}
