import { readFileSync } from "node:fs";
import type { Reloaded } from "./admin/api.ts";
import { startAdmin } from "./admin/listener.ts";
import { createMetrics, type Metrics } from "./admin/metrics.ts";
import type { Config, Loaded } from "./config/config.ts";
import { refuseReload } from "./config/reload.ts";
import { trustProxies } from "./gateway/address.ts";
import { createFailureAllowance } from "./gateway/failures.ts";
import type { Gateway } from "./gateway/gateway.ts";
import { cannotListen, Serving } from "./gateway/serving.ts";
import type { Log } from "./log.ts";
import { openKeyStore, openQuotaStore } from "./stores/open.ts";
import type { KeyStore, QuotaStore, Report } from "./stores/store.ts";

export type StartOptions = {
  readonly log: Log;
  /** Reads the configuration anew, for a reload. */
  readonly load: () => Promise<Loaded>;
  /** Unix milliseconds; tests pass their own. */
  readonly now?: () => number;
  /** Log lines thrown away so far, for the metrics. */
  readonly logDropped?: () => number;
};

/** A running gateway. `urls` has one entry for each environment, by name. */
export type Started = {
  readonly urls: Readonly<Record<string, string>>;
  readonly adminUrl: string | undefined;
  /** Puts a new configuration in force whole, or keeps the old one and says every mistake. */
  reload(): Promise<Reloaded>;
  /** Drains and closes (edge.md, Process). */
  stop(): Promise<void>;
};

/**
 * Builds a gateway from a configuration; main.ts and the tests use this same door. Rejects with an
 * error in words, naming the setting, when an address or a file cannot be used.
 */
export async function start(config: Config, options: StartOptions): Promise<Started> {
  const closers: (() => Promise<unknown>)[] = [];
  try {
    return await House.open(config, options, closers);
  } catch (error) {
    for (const close of closers.reverse()) await close().catch(() => {});
    throw error;
  }
}

const VERSION = String(
  JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")).version,
);

class House implements Started {
  #config: Config;
  readonly #options: StartOptions;
  readonly #gateway: Gateway;
  readonly #keys: KeyStore;
  readonly #quotas: QuotaStore;
  readonly #metrics: Metrics;
  readonly #serving: Serving;
  #closeAdmin: () => Promise<void> = async () => {};
  #stopping: Promise<void> | undefined;
  #reloading: Promise<unknown> = Promise.resolve();
  #lastReloadFailed: string | undefined;
  adminUrl: string | undefined;

  static async open(
    config: Config,
    options: StartOptions,
    closers: (() => Promise<unknown>)[],
  ): Promise<House> {
    const report: Report = (level, message, details) => options.log[level](message, details);
    const now = options.now ?? Date.now;
    const keys = await openKeyStore(config, { now, report, watch: true });
    closers.push(() => keys.close());
    const quotas = await openQuotaStore(config, { now, report, serves: true });
    closers.push(() => quotas.close());
    const house = new House(config, options, keys, quotas, now);
    closers.push(() => house.#serving.close(0));
    await house.#serving.serve(config);
    await house.#openAdmin();
    return house;
  }

  private constructor(
    config: Config,
    options: StartOptions,
    keys: KeyStore,
    quotas: QuotaStore,
    now: () => number,
  ) {
    this.#config = config;
    this.#options = options;
    this.#keys = keys;
    this.#quotas = quotas;
    this.#metrics = createMetrics({
      version: VERSION,
      inFlight: () => this.#serving.active,
      tunnels: () => this.#serving.tunnels,
      upstreams: () => this.#serving.upstreams(),
      storeUp: () => quotas.health().ok,
      storeUnsafePolicy: () => quotas.unsafePolicy?.() ?? false,
      storeCommands: () => quotas.commands?.() ?? 0,
      logDropped: options.logDropped ?? (() => 0),
    });
    this.#gateway = {
      keys,
      quotas,
      failures: createFailureAllowance(config.unauthenticated),
      isTrusted: trustProxies(config.trustedProxies),
      log: options.log,
      onRequest: (line) => {
        this.#metrics.request(line);
        options.log.request(line);
      },
      onWithoutStore: (answer) => {
        const mode = answer === "unavailable" ? "deny" : this.#config.onStoreFailure;
        this.#metrics.decidedWithoutStore(mode);
      },
      onBan: (environment) => this.#metrics.banned(environment),
      now,
      elapsed: () => performance.now(),
      draining: "no",
    };
    this.#serving = new Serving(this.#gateway);
    this.#metrics.configured(config, now());
    keys.onChange(() => quotas.forget());
  }

  get urls(): Record<string, string> {
    return this.#serving.urls;
  }

  reload(): Promise<Reloaded> {
    const next = this.#reloading.then(() => this.#reloadOnce());
    this.#reloading = next.catch(() => {});
    return next;
  }

  stop(): Promise<void> {
    this.#stopping ??= this.#stopOnce();
    return this.#stopping;
  }

  async #reloadOnce(): Promise<Reloaded> {
    const loaded = await this.#options.load();
    if (!loaded.ok) {
      const shown = loaded.mistakes.map(({ file, line, column, message }) => {
        return `${file}:${line}:${column}: ${message}`;
      });
      this.#kept(shown);
      return { ok: false, mistakes: loaded.mistakes };
    }
    const change = { from: this.#config, to: loaded.config };
    const reasons = refuseReload(change, this.#keys.list(), this.#gateway.now());
    if (reasons.length === 0) {
      await this.#serving.serve(loaded.config).catch((error: Error) => reasons.push(error.message));
    }
    if (reasons.length > 0) {
      this.#kept(reasons);
      return { ok: false, mistakes: [], reasons };
    }
    this.#config = loaded.config;
    this.#applyShared(change);
    return { ok: true, hash: loaded.config.hash };
  }

  /** Any mistake keeps the old configuration, says file and line, and counts (edge.md, Process). */
  #kept(reasons: readonly string[]): void {
    for (const reason of reasons) this.#options.log.error(`configuration not reloaded: ${reason}`);
    this.#metrics.reloaded("failure");
    [this.#lastReloadFailed] = reasons;
  }

  #applyShared({ from, to }: { readonly from: Config; readonly to: Config }): void {
    const gateway = this.#gateway;
    const { log } = this.#options;
    if (JSON.stringify(from.unauthenticated) !== JSON.stringify(to.unauthenticated)) {
      gateway.failures = createFailureAllowance(to.unauthenticated);
    }
    gateway.isTrusted = trustProxies(to.trustedProxies);
    this.#quotas.reconfigure?.(to);
    this.#quotas.forget();
    log.setLevel(to.log.level);
    this.#lastReloadFailed = undefined;
    this.#metrics.reloaded("success");
    this.#metrics.configured(to, gateway.now());
    log.info("configuration reloaded", { hash: to.hash });
  }

  async #openAdmin(): Promise<void> {
    const { admin } = this.#config;
    if (admin === undefined) return;
    const { host, port } = admin.listen;
    try {
      const opened = await startAdmin({
        listen: admin.listen,
        token: admin.token,
        config: () => this.#config,
        keys: this.#keys,
        quotas: this.#quotas,
        checks: () => this.#checks(),
        reload: () => this.reload(),
        metrics: this.#metrics,
        log: this.#options.log,
        now: this.#gateway.now,
      });
      this.adminUrl = opened.url;
      this.#closeAdmin = () => opened.close();
    } catch (error) {
      throw cannotListen(error, `${host}:${port}`, "admin.listen");
    }
  }

  #checks() {
    const down = [...this.#serving.upstreams()].filter(({ up }) => !up).map(({ origin }) => origin);
    const draining = this.#gateway.draining !== "no";
    const failed = this.#lastReloadFailed;
    return {
      config: failed === undefined ? { ok: true } : { ok: true, why: `not reloaded: ${failed}` },
      store: this.#quotas.health(),
      keys: this.#keys.health(),
      upstreams: down.length === 0 ? { ok: true } : { ok: false, why: `down: ${down.join(", ")}` },
      draining: draining ? { ok: false, why: "shutting down" } : { ok: true },
    };
  }

  async #stopOnce(): Promise<void> {
    const limits = this.#config.environments.map((environment) => environment.limits);
    this.#gateway.draining = "announced";
    await delay(Math.max(0, ...limits.map(({ drainDelayMs }) => drainDelayMs)));
    this.#gateway.draining = "closed";
    await this.#serving.close(Math.max(0, ...limits.map(({ drainMs }) => drainMs)));
    await this.#closeAdmin();
    await this.#quotas.close();
    await this.#keys.close();
  }
}

function delay(ms: number): Promise<void> {
  return ms === 0 ? Promise.resolve() : new Promise((resolve) => setTimeout(resolve, ms));
}
