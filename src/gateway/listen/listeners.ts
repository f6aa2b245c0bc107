import { isIP } from "node:net";
import type { Config } from "../../config/config.ts";
import { formatHostPort, type HostPort } from "../../core/address.ts";
import type { OpenCharge } from "../../telemetry/history/diagnostics.ts";
import type { CertificateEnd } from "../../telemetry/metrics/metric-readers.ts";
import type { Environment, GatewayContext } from "../exchange/environment.ts";
import { certificateEndMs } from "../runtime/certificate.ts";
import { type ListenerSpec, listenerSpecs, poolsOf, retiredPools } from "./environments.ts";
import { type Listener, openListener } from "./listener.ts";
import { PeriodicTasks } from "./periodic-tasks.ts";
import { filesOfEach, reserveFilesOf } from "./server-limits.ts";

type FoundDown = {
  readonly environment: string;
  readonly backend?: string | undefined;
  readonly origin: string;
  readonly why?: string | undefined;
};

/** The public listeners of a gateway and their environments, as the configuration says. */
export class Listeners {
  readonly #gateway: GatewayContext;
  readonly #listeners = new Map<string, Listener>();
  readonly #tasks: PeriodicTasks;
  #listening: readonly ListenerSpec[] = [];
  #closed = false;

  constructor(gateway: GatewayContext) {
    this.#gateway = gateway;
    this.#tasks = new PeriodicTasks(
      gateway,
      () => this.#serves(),
      () => this.#tellListeners(),
    );
  }

  /** The URL of each environment, by name. */
  get urls(): Record<string, string> {
    const entries = this.#listening.flatMap(({ key, environments }) =>
      environments.map(({ name }) => [name, this.#listeners.get(key)?.url ?? ""] as const),
    );
    return Object.fromEntries(entries);
  }

  /** The number of requests in progress. */
  get active(): number {
    return [...this.#listeners.values()].reduce((sum, listener) => sum + listener.active(), 0);
  }

  /** The charges of requests in progress. */
  get charges(): OpenCharge[] {
    return [...this.#listeners.values()].flatMap((listener) => listener.charges());
  }

  /** The number of client connections. */
  get connections(): number {
    return [...this.#listeners.values()].reduce((sum, listener) => sum + listener.connections(), 0);
  }

  get tunnels(): number {
    return [...this.#listeners.values()].reduce((sum, listener) => sum + listener.tunnels(), 0);
  }

  /** Every upstream of every environment, whether it is in service, and if not the reason. */
  *upstreams() {
    for (const { name, services } of this.#serves()) {
      for (const { path: backend, upstreams } of services) {
        for (const health of upstreams.health()) yield { environment: name, backend, ...health };
      }
    }
  }

  /** Called with upstreams that another process of this gateway found down. */
  foundDown(upstreams: Iterable<FoundDown>): void {
    for (const { environment, backend, origin, why } of upstreams) {
      const { services = [] } = this.#serves().find(({ name }) => name === environment) ?? {};
      services.find(({ path }) => path === backend)?.upstreams.foundDown(origin, why);
    }
  }

  /** When each certificate ends that a listener or an upstream is given. */
  *certificates(): Generator<CertificateEnd> {
    for (const { name: environment, certificate, services } of this.#serves()) {
      if (certificate !== undefined) {
        yield { environment, certificate: "listener", endsMs: certificate.endsMs };
      }
      for (const { upstreams } of services) {
        const { ca, clientCertificate } = upstreams.options;
        if (ca !== undefined) {
          yield { environment, certificate: "upstream_ca", endsMs: endOf(ca) };
        }
        if (clientCertificate !== undefined) {
          const endsMs = endOf(clientCertificate.cert);
          yield { environment, certificate: "upstream_client", endsMs };
        }
      }
    }
  }

  /**
   * Applies a configuration: opens new listeners before anything is swapped, then closes those that
   * are no longer needed. If an address is not available, or everything has been closed, rejects
   * with a readable error and changes nothing.
   */
  async serve(config: Config): Promise<void> {
    if (this.#closed) throw new Error("The gateway has stopped");
    const before = this.#listening;
    const next = listenerSpecs(config, this.#gateway.elapsed, before);
    await this.#open(next, config);
    this.#listening = next;
    this.#tellListeners();
    this.#tasks.start();
    for (const { key } of before) {
      if (!next.some((one) => one.key === key)) void this.#close(key);
    }
    for (const upstreams of retiredPools(before, next)) upstreams.close();
    for (const upstreams of poolsOf(next)) upstreams.open();
  }

  /** Waits at most `deadlineMs` for exchanges in progress, then closes every connection. */
  async close(deadlineMs: number): Promise<void> {
    await Promise.all([...this.#listeners.values()].map((one) => one.close(deadlineMs)));
    this.#closed = true;
    this.#tasks.stop();
    for (const upstreams of poolsOf(this.#listening)) upstreams.close();
  }

  /** Ends all exchanges in progress without waiting any longer. */
  cut(): void {
    for (const listener of this.#listeners.values()) listener.cut();
  }

  #serves(): readonly Environment[] {
    return this.#listening.flatMap(({ environments }) => environments);
  }

  #tellListeners(): void {
    const filesMax = filesOfEach(this.#listening);
    reserveFilesOf(this.#listening, filesMax);
    for (const { key, environments } of this.#listening) {
      this.#listeners.get(key)?.serve({ environments, filesMax });
    }
  }

  async #open(next: readonly ListenerSpec[], config: Config): Promise<void> {
    const opened: string[] = [];
    const filesMax = filesOfEach(next);
    for (const { key, listen, environments } of next) {
      if (this.#listeners.has(key)) continue;
      const served = { environments, filesMax };
      try {
        this.#listeners.set(key, await openListener(this.#gateway, listen, served));
        opened.push(key);
      } catch (error) {
        for (const one of opened) await this.#close(one);
        const settings = environments.map(({ name }) => `environments.${name}.listen`).join(", ");
        throw listenError(error, listen, settings, config);
      }
    }
  }

  async #close(key: string): Promise<void> {
    const listener = this.#listeners.get(key);
    this.#listeners.delete(key);
    await listener?.close(0);
  }
}

const ends = new Map<string, number>();
const ENDS_MAX = 100;

/** The end of a PEM text, which is parsed once. */
function endOf(pem: string): number {
  let endsMs = ends.get(pem);
  if (endsMs === undefined) {
    endsMs = certificateEndMs(pem);
    if (ends.size >= ENDS_MAX) ends.clear();
    ends.set(pem, endsMs);
  }
  return endsMs;
}

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
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
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
