import { setTimeout as delay } from "node:timers/promises";
import type { Watched } from "../../admin/prometheus.ts";
import type { Config } from "../../config/config.ts";
import { judgeReload, type Next, type Reloaded, whyNot } from "../../config/reload.ts";
import { formatAddress } from "../../core/http/address.ts";
import { drainTimes } from "../../core/http/edge-limits.ts";
import { trustProxies } from "../../gateway/client/client-address.ts";
import { createFailureAllowance } from "../../gateway/client/failure-allowance.ts";
import type { Gateway } from "../../gateway/exchange/served.ts";
import { cannotListen, Serving } from "../../gateway/listen/listeners.ts";
import type { KeyStore } from "../../stores/interface/key-store.ts";
import type { QuotaStore } from "../../stores/interface/quota-store.ts";
import { openKeyStore, openQuotaStore } from "../../stores/open.ts";
import { type Counting, createCounting, takeCounted } from "../../telemetry/counting.ts";
import { type Checks, checksOf } from "../../telemetry/health.ts";
import type { Report } from "../../telemetry/log.ts";
import type { StartOptions } from "./started.ts";
import { type One, readGauges, type Told, watch } from "./status.ts";
import { VERSION } from "./version.ts";

/** The same in this process alone, whatever `workers` says: one of several is started so. */
export async function startOne(config: Config, options: StartOptions): Promise<One> {
  const closers: (() => Promise<unknown>)[] = [];
  try {
    return await House.open(config, options, closers);
  } catch (error) {
    for (const close of closers.reverse()) await close().catch(() => {});
    throw error;
  }
}

class House implements One {
  #config: Config;
  readonly #options: StartOptions;
  readonly #gateway: Gateway;
  readonly #keys: KeyStore;
  readonly #quotas: QuotaStore;
  readonly #counting: Counting = createCounting();
  readonly #serving: Serving;
  #closeAdmin: () => Promise<void> = async () => {};
  #stopping: Promise<void> | undefined;
  readonly #hurry = new AbortController();
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
    this.#gateway = {
      keys,
      quotas,
      failures: createFailureAllowance(config.unauthenticated),
      isTrusted: trustProxies(config.trustedProxies),
      log: options.log,
      onRequest: (line) => {
        this.#counting.request(line);
        options.log.request(line);
      },
      onWithoutStore: (answer) => {
        const mode = answer === "unavailable" ? "deny" : this.#config.onStoreFailure;
        this.#counting.decidedWithoutStore(mode);
      },
      onBan: (environment) => this.#counting.banned(environment),
      now,
      elapsed: () => performance.now(),
      draining: "no",
    };
    this.#serving = new Serving(this.#gateway);
    this.#counting.configured(config, now());
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

  tell(): Told {
    return {
      counted: takeCounted(this.#counting),
      gauges: readGauges(this.#watched()),
      checks: this.#checks(),
    };
  }

  stop({ atOnce } = { atOnce: false }): Promise<void> {
    if (atOnce) this.#hurry.abort();
    this.#stopping ??= this.#stopOnce();
    if (atOnce) this.#serving.cut();
    return this.#stopping;
  }

  async #reloadOnce(): Promise<Reloaded> {
    const loaded = await this.#options.load();
    const from = this.#config;
    const inForce = { from, records: this.#keys.list(), nowMs: this.#gateway.now() };
    const judged = judgeReload(loaded, inForce);
    const next = judged.ok ? await this.#serve(judged) : judged;
    if (!next.ok) {
      this.#kept(whyNot(next));
      return next;
    }
    this.#config = next.config;
    this.#applyShared({ from, to: next.config });
    return { ok: true, hash: next.config.hash };
  }

  #serve(next: Extract<Next, { ok: true }>): Promise<Next> {
    return this.#serving.serve(next.config).then(
      () => next,
      (error: Error) => ({ ok: false, mistakes: [], reasons: [error.message] }),
    );
  }

  /**
   * Any mistake keeps the old configuration, is logged with its file and line, and counts
   * (docs/reference/edge.md#reload).
   */
  #kept(reasons: readonly string[]): void {
    for (const why of reasons) this.#options.log.error("config_refused", { why });
    this.#counting.reloaded("failure");
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
    this.#counting.reloaded("success");
    this.#counting.configured(to, gateway.now());
    log.info("config_reloaded", { hash: to.hash });
  }

  async #openAdmin(): Promise<void> {
    const { admin } = this.#config;
    if (admin === undefined) return;
    const { openAdmin } = await import("../../admin/listener.ts");
    const opened = await openAdmin(admin, {
      config: () => this.#config,
      keys: this.#keys,
      quotas: this.#quotas,
      checks: () => this.#checks(),
      reload: () => this.reload(),
      counting: this.#counting,
      watched: this.#watched(),
      log: this.#options.log,
      now: this.#gateway.now,
    }).catch((error: unknown) => {
      throw cannotListen(error, formatAddress(admin.listen), "admin.listen");
    });
    this.adminUrl = opened.url;
    this.#closeAdmin = () => opened.close();
  }

  #watched(): Watched {
    const { logDropped = () => 0 } = this.#options;
    return { ...watch(this.#serving, this.#quotas), version: VERSION, logDropped };
  }

  #checks(): Checks {
    return checksOf({
      reloadFailed: this.#lastReloadFailed,
      store: this.#quotas.health(),
      keys: this.#keys.health(),
      upstreams: this.#serving.upstreams(),
      draining: this.#gateway.draining !== "no",
    });
  }

  async #stopOnce(): Promise<void> {
    const { delayMs, drainMs } = drainTimes(this.#config);
    this.#gateway.draining = "announced";
    const { signal } = this.#hurry;
    await delay(delayMs, undefined, { signal }).catch(() => {});
    this.#gateway.draining = "closed";
    await this.#serving.close(signal.aborted ? 0 : drainMs);
    await this.#closeAdmin();
    await this.#quotas.close();
    await this.#keys.close();
  }
}
