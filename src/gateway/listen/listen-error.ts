import { isIP } from "node:net";
import { errorCode } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import { formatHostPort, type HostPort } from "../../core/address.ts";

const MORE_FILES = "Raise their limit (ulimit -n)";

/**
 * By the code of the system: the reason, and the advice, which the name of the setting follows
 * unless no other address would help.
 */
const LISTEN_ERRORS: Readonly<
  Record<string, readonly [why: string, advice: string, isComplete?: true]>
> = {
  EMFILE: ["too many open files (EMFILE)", MORE_FILES, true],
  ENFILE: ["the system has too many open files (ENFILE)", MORE_FILES, true],
  EADDRINUSE: ["the port is in use already", "Stop what listens there or change"],
  EACCES: [
    "this user may not use the port (EACCES)",
    "Give the process CAP_NET_BIND_SERVICE, or name a port from 1024 on in",
  ],
  EADDRNOTAVAIL: ["this machine has no such address (EADDRNOTAVAIL)", "Name one that it has in"],
  ENOTFOUND: ["the name has no address (ENOTFOUND)", "Name an address of this machine in"],
};

/**
 * The error of a listener, with the value and the setting: an address in use is the most common
 * start-up problem.
 */
export function listenError(
  error: unknown,
  listen: HostPort,
  setting: string,
  config: Pick<Config, "environments" | "admin">,
): Error {
  const code = String(errorCode(error));
  const reason = error instanceof Error ? error.message : String(error);
  const [why, advice, isComplete] = LISTEN_ERRORS[code] ?? [reason, "Change"];
  const others = code === "EADDRINUSE" ? settingsLike(listen, config) : [];
  const own =
    others.length === 0 ? "" : `, and ${others.join(", ")} of this file may be the same address`;
  const place = `${formatHostPort(listen)} (${setting})`;
  const remedy = isComplete ? advice : `${advice} ${setting}`;
  return new Error(`Cannot listen on ${place}: ${why}${own}. ${remedy}`, { cause: error });
}

/** The settings of other listeners that may have the same address: one of the two hosts is a name. */
function settingsLike(
  { host, port }: HostPort,
  { environments, admin }: Pick<Config, "environments" | "admin">,
): string[] {
  const all = environments.map(({ name, listen }) => {
    return { setting: `environments.${name}.listen`, ...listen };
  });
  const every = admin === undefined ? all : [...all, { setting: "admin.listen", ...admin.listen }];
  return every.flatMap((one) => {
    const isLike = one.port === port && one.host !== host && !(isIP(one.host) && isIP(host));
    return isLike ? [one.setting] : [];
  });
}
