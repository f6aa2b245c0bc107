import { uptime } from "node:os";
import type { Environment, GatewayContext } from "../exchange/environment.ts";
import { memoryPressure, memoryShare, releaseMemory } from "../runtime/memory.ts";

const PROBES_MS = 100;
const CERTIFICATES_MS = 500;
const MEMORY_MS = 1_000;
const PAUSE_LOOK_MS = 1_000;
/** A pause of the process that is worth a line. */
const PAUSE_MS = 5_000;
/** The least time between two collections that low memory causes. */
const GIVE_BACK_MS = 60_000;

/** Does the periodic work, whether requests come or not. */
export class PeriodicTasks {
  readonly #gateway: GatewayContext;
  readonly #served: () => readonly Environment[];
  readonly #onChange: () => void;
  readonly #timers: NodeJS.Timeout[] = [];
  #givesBackFromMs = 0;
  #seenMs = 0;

  /** `onChange` is called when a certificate or the memory pressure has changed. */
  constructor(gateway: GatewayContext, served: () => readonly Environment[], onChange: () => void) {
    this.#gateway = gateway;
    this.#served = served;
    this.#onChange = onChange;
  }

  start(): void {
    if (this.#timers.length > 0) return;
    this.#seenMs = 1_000 * uptime();
    const probe = () => {
      for (const { services } of this.#served()) {
        for (const { upstreams } of services) upstreams.probe();
      }
    };
    this.#timers.push(
      setInterval(probe, PROBES_MS).unref(),
      setInterval(() => this.#reloadCertificates(), CERTIFICATES_MS).unref(),
      setInterval(() => this.#judgeMemory(), MEMORY_MS).unref(),
      setInterval(() => this.#judgePause(), PAUSE_LOOK_MS).unref(),
    );
  }

  stop(): void {
    for (const timer of this.#timers.splice(0)) clearInterval(timer);
  }

  /** By a clock that goes on while the machine sleeps, which performance.now() does not. */
  #judgePause(): void {
    const nowMs = 1_000 * uptime();
    const forMs = Math.round(nowMs - this.#seenMs - PAUSE_LOOK_MS);
    this.#seenMs = nowMs;
    if (forMs >= PAUSE_MS) this.#gateway.log.warn("process_paused", { forMs });
  }

  #judgeMemory(): void {
    const { log, memory: before = "enough" } = this.#gateway;
    const share = memoryShare();
    const memory = memoryPressure(share);
    if (memory !== "enough") this.#giveMemoryBack();
    if (memory === before) return;
    this.#gateway.memory = memory;
    const level = memory === "enough" ? "info" : "error";
    log[level](`memory_${memory}`, { percentOfLimit: Math.round(100 * share) });
    this.#onChange();
  }

  /** A heap keeps its size while idle. Its unused part must not turn connections away. */
  #giveMemoryBack(): void {
    const nowMs = this.#gateway.elapsed();
    if (nowMs < this.#givesBackFromMs) return;
    this.#givesBackFromMs = nowMs + GIVE_BACK_MS;
    releaseMemory();
  }

  #reloadCertificates(): void {
    const { log } = this.#gateway;
    for (const { name, certificate } of this.#served()) {
      const reloaded = certificate?.reloadIfChanged() ?? "same";
      if (reloaded === "same") continue;
      if (reloaded === "new") {
        log.info("certificate_reloaded", { env: name });
        this.#onChange();
      } else {
        log.error("certificate_refused", { env: name, why: reloaded.why });
      }
    }
  }
}
