import type { Config } from "../../config/config.ts";
import type { OpenCharge } from "../../telemetry/history/diagnostics.ts";
import type { CertificateEnd } from "../../telemetry/metrics/metric-readers.ts";
import type { UpstreamState } from "../../telemetry/readiness.ts";
import type { Environment, GatewayContext } from "../exchange/environment.ts";
import { certificateEndMs } from "../runtime/certificate.ts";
import { type ListenerSpec, listenerSpecs, poolsOf, retiredPools } from "./environments.ts";
import { listenError } from "./listen-error.ts";
import { Listener } from "./listener.ts";
import { PeriodicTasks } from "./periodic-tasks.ts";
import { filesOfEach, reserveFilesOf } from "./server-limits.ts";

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
      () => this.#environments,
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
    return this.#sum((listener) => listener.active());
  }

  /** The charges of requests in progress. */
  get charges(): OpenCharge[] {
    return [...this.#listeners.values()].flatMap((listener) => listener.charges());
  }

  /** The number of client connections. */
  get connections(): number {
    return this.#sum((listener) => listener.connections());
  }

  get tunnels(): number {
    return this.#sum((listener) => listener.tunnels());
  }

  #sum(count: (listener: Listener) => number): number {
    return [...this.#listeners.values()].reduce((sum, listener) => sum + count(listener), 0);
  }

  /** Every upstream of every environment, whether it is in service, and if not the reason. */
  *upstreams(): Generator<UpstreamState> {
    for (const { name, services } of this.#environments) {
      for (const { path: backend, upstreams } of services) {
        for (const health of upstreams.health.report()) {
          const outages = upstreams.health.outagesOf(health.origin);
          yield { environment: name, backend, ...health, ...(outages && { outages }) };
        }
      }
    }
  }

  /** Called with upstreams that another process of this gateway found down. */
  foundDown(upstreams: Iterable<UpstreamState>): void {
    for (const { environment, backend, origin, why } of upstreams) {
      const { services = [] } = this.#environments.find(({ name }) => name === environment) ?? {};
      services.find(({ path }) => path === backend)?.upstreams.health.foundDown(origin, why);
    }
  }

  /** When each certificate ends that a listener or an upstream is given. */
  *certificates(): Generator<CertificateEnd> {
    for (const { name: environment, certificate, services } of this.#environments) {
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
    const next = listenerSpecs(config, this.#gateway, before);
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

  get #environments(): readonly Environment[] {
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
      try {
        const listener = new Listener(this.#gateway, listen, { environments, filesMax });
        await listener.listen();
        this.#listeners.set(key, listener);
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

/** The end of a PEM text, which is parsed once: services share texts, and reloads keep them. */
function endOf(pem: string): number {
  let endsMs = ends.get(pem);
  if (endsMs === undefined) {
    endsMs = certificateEndMs(pem);
    if (ends.size >= ENDS_MAX) ends.clear();
    ends.set(pem, endsMs);
  }
  return endsMs;
}
