import { isIPv4 } from "node:net";

/** Port 0 asks for any free port. */
export type HostPort = { readonly host: string; readonly port: number };

/** As people write it: IPv6 in brackets. */
export function formatHostPort({ host, port }: HostPort): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Only this machine can reach it. */
export function isLoopback({ host }: HostPort): boolean {
  return host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));
}
