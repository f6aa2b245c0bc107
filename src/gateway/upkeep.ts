import type { Gateway, Served } from "./gateway.ts";

const PROBES_MS = 100;
const CERTIFICATES_MS = 500;

/** What has to be done now and then for what is served, whether requests come or not. */
export class Upkeep {
  readonly #gateway: Gateway;
  readonly #served: () => readonly Served[];
  readonly #onNewCertificate: () => void;
  readonly #timers: NodeJS.Timeout[] = [];

  constructor(gateway: Gateway, served: () => readonly Served[], onNewCertificate: () => void) {
    this.#gateway = gateway;
    this.#served = served;
    this.#onNewCertificate = onNewCertificate;
  }

  start(): void {
    if (this.#timers.length > 0) return;
    const probe = () => {
      for (const { upstreams } of this.#served()) upstreams.probe();
    };
    this.#timers.push(
      setInterval(probe, PROBES_MS).unref(),
      setInterval(() => this.#lookAtCertificates(), CERTIFICATES_MS).unref(),
    );
  }

  stop(): void {
    for (const timer of this.#timers.splice(0)) clearInterval(timer);
  }

  #lookAtCertificates(): void {
    const { log } = this.#gateway;
    for (const { name, certificate } of this.#served()) {
      const looked = certificate?.look() ?? "same";
      if (looked === "same") continue;
      if (looked === "new") {
        log.info("certificate reloaded", { env: name });
        this.#onNewCertificate();
      } else {
        log.error("certificate not reloaded: the old one stays", { env: name, why: looked.why });
      }
    }
  }
}
