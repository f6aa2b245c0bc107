import { setTimeout as delay } from "node:timers/promises";
import type { CertificateFiles, CertificateInForce, Config } from "../../config/config.ts";
import { Certificate } from "../../gateway/runtime/certificate.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import type { QuotaStore } from "../../stores/quotas/quota-store.ts";
import type { WorkerStart } from "./messages.ts";

const CERTIFICATES_MS = 500;
/** A start waits this long for a store that may not reply. */
const RECORDS_MS_MAX = 500;

type Sources = {
  /** The name of the gateway. */
  readonly gateway: string;
  readonly keys: Pick<KeyStore, "refresh" | "ready" | "health" | "records">;
  readonly quotas: Pick<QuotaStore, "health">;
};

/**
 * Hands what is in force to workers that start later: the certificates, and the records while they
 * cannot be read. A file that went bad would end one worker after the other.
 */
export class Handover {
  readonly #sources: Sources;
  /** By the name of the environment. */
  #certificates: ReadonlyMap<string, Certificate> = new Map();
  readonly #timer: NodeJS.Timeout;

  constructor(config: Config, sources: Sources) {
    this.#sources = sources;
    this.adopt(config);
    this.#timer = setInterval(() => {
      // The workers read the same files, and log it.
      for (const certificate of this.#certificates.values()) certificate.reloadIfChanged();
    }, CERTIFICATES_MS).unref();
  }

  /** The workers have applied this configuration. */
  adopt({ environments }: Config): void {
    const before = this.#certificates;
    const certificates = environments.flatMap(({ name, tls }) => {
      const kept = before.get(name);
      if (tls === undefined) return [];
      const certificate = kept?.isOf(tls) ? kept : readCertificate(tls);
      return certificate === undefined ? [] : [[name, certificate] as const];
    });
    this.#certificates = new Map(certificates);
  }

  async of(config: Config): Promise<Omit<WorkerStart, "upstreams">> {
    const environments = config.environments.map((environment) => {
      const { name, tls } = environment;
      return { ...environment, tls: tls && { ...tls, inForce: this.#inForce(name, tls) } };
    });
    const records = await this.#records();
    return { config: { ...config, environments }, gateway: this.#sources.gateway, records };
  }

  close(): void {
    clearInterval(this.#timer);
  }

  #inForce(name: string, files: CertificateFiles): CertificateInForce | undefined {
    const certificate = this.#certificates.get(name);
    return certificate?.isOf(files) ? certificate.inForce : undefined;
  }

  /** The records, unless the worker can read them by itself: there may be many. */
  async #records(): Promise<WorkerStart["records"]> {
    const { keys, quotas } = this.#sources;
    const late = delay(RECORDS_MS_MAX, undefined, { ref: false });
    const readable = await Promise.race([
      keys.refresh().then(
        () => true,
        () => false,
      ),
      late.then(() => false),
    ]);
    const canRead = readable && keys.health().ok && quotas.health().ok;
    return canRead || !keys.ready ? undefined : keys.records();
  }
}

/** Undefined if the files cannot be used: a worker says why. */
function readCertificate(files: CertificateFiles): Certificate | undefined {
  try {
    return new Certificate(files);
  } catch {
    return undefined;
  }
}
