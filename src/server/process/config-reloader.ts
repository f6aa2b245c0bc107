import { SerialQueue } from "../../base/serial-queue.ts";
import type { Config, ConfigChange, LoadResult } from "../../config/config.ts";
import { countingHash } from "../../config/queries/counting-hash.ts";
import { decideReload, reloadErrors } from "../../config/reload.ts";
import type { ReloadResult } from "../../config/reload-result.ts";
import { takesPlansAway } from "../../config/unserved-records.ts";
import type { KeyStore } from "../../stores/keys/key-store.ts";
import type { MetricsRecorder } from "../../telemetry/metrics/metrics-recorder.ts";
import { logWarnings } from "./log-warnings.ts";
import type { StartOptions } from "./served-gateway.ts";

/**
 * The result of rolling out a configuration. If `applied` is false, nothing changed, for these
 * reasons. If true, it is in force in every process except those the reasons name.
 */
export type Rollout = { readonly applied: boolean; readonly reasons: readonly string[] };

type ConfigReloaderParts = {
  readonly options: Pick<StartOptions, "load" | "log" | "worker">;
  readonly stores: { readonly keys: KeyStore; readonly metrics: MetricsRecorder };
  readonly now: () => number;
  /** The clock by which records are judged. */
  readonly storeNow: () => number;
  /** Applies a configuration that was checked. Never rejects. */
  readonly applyConfig: (change: ConfigChange) => Promise<Rollout>;
  /** Called when a new configuration is in force. */
  readonly adopted: (config: Config) => Promise<void>;
};

/** Holds the configuration in force, and replaces it, one reload at a time. */
export class ConfigReloader {
  #config: Config;
  readonly #parts: ConfigReloaderParts;
  readonly #reloading = new SerialQueue();
  #failed: { readonly summary: string; readonly reasons: readonly string[] } | undefined;

  constructor(config: Config, parts: ConfigReloaderParts) {
    this.#config = config;
    this.#parts = parts;
    parts.stores.metrics.configured(config, parts.now());
  }

  get config(): Config {
    return this.#config;
  }

  /** Why the last reload was refused, in words; undefined if it was not. */
  get failed(): string | undefined {
    return this.#failed?.summary;
  }

  /** All that the last reload was refused for; empty if it was not. */
  get refusals(): readonly string[] {
    return this.#failed?.reasons ?? [];
  }

  /** `isRetry`: see ServedGateway. */
  reload(isRetry = false): Promise<ReloadResult> {
    return this.#reloading.run(() => this.#reloadOnce(isRetry));
  }

  async #reloadOnce(isRetry: boolean): Promise<ReloadResult> {
    const loaded = await this.#parts.options.load();
    const isHarmless = !loaded.ok || !takesPlansAway({ from: this.#config, to: loaded.config });
    // With workers, the process that watches them judges the plans for all.
    if (isHarmless || this.#parts.options.worker !== undefined) {
      const isQuiet = isRetry && !loaded.ok && loaded.unread !== undefined;
      return this.#replace(loaded, { isQuiet });
    }
    return this.#parts.stores.keys.betweenChanges((reread) => {
      return this.#replace(loaded, { reread: () => reread().catch(() => undefined) });
    });
  }

  /**
   * `reread`: reads the newest records, because accounts may have a plan that goes. `isQuiet`: that
   * it is refused has been told.
   */
  async #replace(
    loaded: LoadResult,
    { reread, isQuiet = false }: { reread?: () => Promise<void>; isQuiet?: boolean },
  ): Promise<ReloadResult> {
    const from = this.#config;
    const { keys } = this.#parts.stores;
    const judge = () =>
      decideReload(loaded, { from, records: keys.records(), nowMs: this.#parts.storeNow() });
    await reread?.();
    const next = judge();
    if (!next.ok) {
      if (!isQuiet) this.#kept(reloadErrors(next), next.summary);
      return next;
    }
    const { config, warnings } = next;
    const { applied, reasons } = await this.#parts.applyConfig({ from, to: config });
    if (!applied) {
      this.#kept(reasons, "it could not be put to use");
      return { ok: false, mistakes: [], reasons };
    }
    await reread?.();
    // Another process may have written a record since, by the plans of before.
    const again = reread === undefined ? next : judge();
    if (!again.ok) {
      const back = await this.#parts.applyConfig({ from: config, to: from });
      if (back.applied) {
        this.#kept(reloadErrors(again), again.summary);
        return again;
      }
    }
    this.#config = config;
    this.#failed = undefined;
    this.#parts.options.log.setLevel(config.log.level);
    this.#parts.stores.metrics.configured(config, this.#parts.now());
    // With workers, the process that watches them warns for all.
    if (this.#parts.options.worker === undefined) logWarnings(this.#parts.options.log, warnings);
    await this.#parts.adopted(config);
    return this.#told({ from, to: config }, reasons);
  }

  /**
   * Keeps the old configuration. The log has the `reasons`, each mistake with its file and line; the
   * `summary` is public (docs/reference/edge.md#reload).
   */
  #kept(reasons: readonly string[], summary: string): void {
    if (this.#parts.options.worker === undefined) {
      for (const why of reasons) this.#parts.options.log.error("config_refused", { why });
    }
    this.#parts.stores.metrics.reloaded("failure");
    this.#failed = { summary, reasons };
  }

  /** `reasons` name the processes that do not have the configuration yet. */
  #told({ from, to }: ConfigChange, reasons: readonly string[]): ReloadResult {
    const { hash } = to;
    const { log } = this.#parts.options;
    const { metrics } = this.#parts.stores;
    if (this.#parts.options.worker === undefined) {
      const before = { hashBefore: from.hash, countingBefore: countingHash(from) };
      log.info("config_reloaded", { hash, counting: countingHash(to), ...before });
    }
    if (reasons.length > 0) {
      for (const why of reasons) log.error("config_incomplete", { why });
      metrics.reloaded("incomplete");
      return { ok: false, mistakes: [], reasons, partly: true };
    }
    metrics.reloaded("success");
    return { ok: true, hash };
  }
}
