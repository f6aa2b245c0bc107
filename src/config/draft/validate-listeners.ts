import { isIPv6 } from "node:net";
import { formatHostPort, type HostPort, hostPortOf, isLoopback } from "../../core/address.ts";
import type { Findings } from "../file/findings.ts";
import type { ConfigPath } from "../file/mistake.ts";
import type { Draft } from "./draft.ts";
import { listServices } from "./service-drafts.ts";

/**
 * Finds the mistakes in addresses that environments and the admin listener share: hosts that do not
 * tell environments apart, an address that includes another, TLS of one alone, limits that differ.
 */
export function validateListeners(draft: Draft, findings: Findings): void {
  checkAddresses(draft, findings);
  checkLocalhost(draft, findings);
  checkLoops(draft, findings);
  checkTls(draft, findings);
  checkLimits(draft, findings);
}

type ListenerUse = {
  readonly name: string;
  readonly listen: HostPort;
  readonly hosts: readonly string[] | undefined;
};

function checkAddresses({ environments, admin }: Draft, findings: Findings): void {
  const seen: ListenerUse[] = [];
  for (const [name, { listen, hosts }] of environments) {
    if (listen === undefined) continue;
    const path = ["environments", name, "listen"];
    for (const earlier of seen) {
      const why = clash({ name, listen, hosts }, earlier, findings);
      if (why !== undefined) findings.mistake(path, why);
    }
    seen.push({ name, listen, hosts });
  }
  if (admin === undefined) return;
  const taken = seen.find(
    ({ listen }) => isSame(listen, admin.listen) || collide(listen, admin.listen),
  );
  if (taken === undefined) return;
  const given = findings.isGiven(["admin", "listen"]);
  findings.mistake(
    given ? ["admin", "listen"] : ["environments", taken.name, "listen"],
    `Cannot open the admin listener on ${findings.shown(["admin", "listen"], formatHostPort(admin.listen))}: environment ${taken.name} listens on ${shownListen(taken, findings)}; choose another port`,
  );
}

function shownListen({ name, listen }: Omit<ListenerUse, "hosts">, findings: Findings): string {
  return findings.shown(["environments", name, "listen"], formatHostPort(listen));
}

/** Why two environments cannot both listen. On one address they need hosts of their own. */
function clash(one: ListenerUse, earlier: ListenerUse, findings: Findings): string | undefined {
  const where = shownListen(one, findings);
  if (!isSame(one.listen, earlier.listen)) {
    if (!collide(one.listen, earlier.listen)) return undefined;
    const other = shownListen(earlier, findings);
    return `Cannot open ${where} for ${one.name} beside ${other} for ${earlier.name}: one includes the other; write both alike, or choose another port`;
  }
  if (one.hosts === undefined || earlier.hosts === undefined) return undefined;
  if (one.hosts.length === 0 && earlier.hosts.length === 0) {
    return `Cannot share ${where} between ${earlier.name} and ${one.name}: neither has hosts to tell them apart; give hosts, or choose another port`;
  }
  const both = one.hosts.find((host) => earlier.hosts?.includes(host));
  if (both === undefined) return undefined;
  const shown = findings.shown(["environments", one.name, "hosts", one.hosts.indexOf(both)], both);
  return `Cannot share ${where} between ${earlier.name} and ${one.name}: both have the host ${shown}; keep it in one`;
}

/** Port 0 means any free port, so it is never shared. */
function isSame(one: HostPort, other: HostPort): boolean {
  return one.port !== 0 && one.port === other.port && one.host === other.host;
}

/**
 * An address that stands for all addresses of a machine takes the port of each of them: 0.0.0.0 of
 * those of IPv4, `::` of both.
 */
function collide(one: HostPort, other: HostPort): boolean {
  const includes = (all: HostPort, { host }: HostPort) => {
    return all.host === "::" || (all.host === "0.0.0.0" && !isIPv6(host));
  };
  return (
    one.port !== 0 && one.port === other.port && (includes(one, other) || includes(other, one))
  );
}

/** All listeners with a port of their own. */
function listenersOf(
  { environments, admin }: Pick<Draft, "environments" | "admin">,
  findings: Findings,
) {
  const own = { who: "the admin listener", listen: admin?.listen, path: ["admin", "listen"] };
  const all = [...environments].map(([name, { listen }]) => {
    return { who: `environment ${name}`, listen, path: ["environments", name, "listen"] };
  });
  return [...all, own].flatMap(({ who, listen, path }) => {
    if (listen === undefined || listen.port === 0) return [];
    return [{ who, ...listen, path, shown: findings.shown(path, formatHostPort(listen)) }];
  });
}

/**
 * Warns of an upstream that is a listener of this gateway. Such a request comes back without its
 * key, so that its client is told to send one.
 */
function checkLoops(draft: Draft, findings: Findings): void {
  const listeners = listenersOf(draft, findings);
  for (const { environment, path, backend } of listServices(draft.environments)) {
    const { upstreams = [] } = backend ?? draft.environments.get(environment) ?? {};
    for (const [i, origin] of upstreams.entries()) {
      if (origin === undefined) continue;
      const target = hostPortOf(new URL(origin));
      const listener = listeners.find((each) => takes(each, target));
      if (listener === undefined) continue;
      const at = [...path, "upstreams", i];
      findings.warning(
        at,
        `${findings.shown(at, origin)} is ${listener.shown} of ${listener.who}: requests come back to this gateway, without their key; name the backend`,
      );
    }
  }
}

/** Whether a connection of this machine to `target` reaches the listener. */
function takes(listener: HostPort, target: HostPort): boolean {
  if (listener.port !== target.port) return false;
  if (listener.host === target.host) return true;
  const names = [listener.host, target.host];
  if (names.includes("localhost")) return names.every((host) => AT_LOCALHOST.has(host));
  return isLoopback(target) && collide(listener, target);
}

/** Hosts that may have a port of localhost: 127.0.0.2 has none. */
const AT_LOCALHOST: ReadonlySet<string> = new Set([
  "localhost",
  "127.0.0.1",
  "::1",
  "0.0.0.0",
  "::",
]);

/** A warning only, because the machine decides at the start which of its addresses localhost is. */
function checkLocalhost({ environments, admin }: Draft, findings: Findings): void {
  const listeners = listenersOf({ environments, admin }, findings);
  for (const named of listeners.filter(({ host }) => host === "localhost")) {
    const other = listeners.find(({ host, port }) => {
      return port === named.port && (host === "127.0.0.1" || host === "::1");
    });
    if (other === undefined) continue;
    findings.warning(
      named.path,
      `${named.shown} of ${named.who} may be ${other.shown} of ${other.who}, as the machine says which address a name has; the start fails if so: write both alike, or choose another port`,
    );
  }
}

/** Environments that share a listener must all have TLS or none: one port speaks one of the two. */
function checkTls({ environments }: Draft, findings: Findings): void {
  const firsts = new Map<string, { readonly name: string; readonly isTls: boolean }>();
  for (const [name, { listen, tls }] of environments) {
    if (listen === undefined || listen.port === 0) continue;
    const path = ["environments", name, "tls"];
    if (findings.isGiven(path) && tls === undefined) continue;
    const where = formatHostPort(listen);
    const isTls = tls !== undefined;
    const first = firsts.get(where);
    if (first === undefined) firsts.set(where, { name, isTls });
    else if (first.isTls !== isTls) {
      const [having, lacking] = isTls ? [name, first.name] : [first.name, name];
      findings.mistake(
        isTls ? path : ["environments", name, "listen"],
        `Cannot share ${shownListen({ name, listen }, findings)} between ${first.name} and ${name}: ${having} has tls and ${lacking} has not; give tls to both, or choose another port`,
      );
    }
  }
}

/** The limits that hold before the environment of a connection is known, and which value wins. */
const LISTENER_LIMITS = {
  connections: "largest",
  connectionsPerAddress: "smallest above 0",
  headersTimeout: "longest",
} as const;

/** Environments that share a listener may differ in its limits, but it can have only one of each. */
function checkLimits({ environments, limits }: Draft, findings: Findings): void {
  if (limits === undefined) return;
  const sharing = Map.groupBy(environments, ([, { listen }]) => {
    return listen === undefined || listen.port === 0 ? undefined : formatHostPort(listen);
  });
  for (const [listen, group] of sharing) {
    if (listen === undefined) continue;
    const names = group.map(([name]) => name);
    for (const [key, winner] of Object.entries(LISTENER_LIMITS)) {
      const values = group.map(
        ([, one]) => ({ ...limits, ...one.limits })[key as keyof typeof limits],
      );
      if (new Set(values).size === 1) continue;
      const paths = names.map((name) => ["environments", name, "limits", key]);
      const path = paths.find((one) => findings.isGiven(one)) as ConfigPath;
      const where = findings.shown(["environments", names[0] as string, "listen"], listen);
      findings.warning(
        path,
        `Environments ${names.join(", ")} share ${where} and differ in limits.${key}: the listener has the ${winner}; write the same in each`,
      );
    }
  }
}
