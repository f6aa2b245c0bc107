import type { Admin } from "../../admin/listener.ts";
import { openAdmin } from "../../admin/listener.ts";
import type { Watched } from "../../admin/prometheus.ts";
import type { Config } from "../../config/config.ts";
import type { Reloaded } from "../../config/reload.ts";
import { judgeReload, whyNot } from "../../config/reload.ts";
import { formatAddress } from "../../core/http/address.ts";
import { drainTimes } from "../../core/http/edge-limits.ts";
import { cannotListen } from "../../gateway/listen/listeners.ts";
import type { KeyStore } from "../../stores/interface/key-store.ts";
import type { QuotaStore } from "../../stores/interface/quota-store.ts";
import { openKeyStore, openQuotaStore } from "../../stores/open.ts";
import { addCounted, type Counting, createCounting } from "../../telemetry/counting.ts";
import { type Checks, checksOf } from "../../telemetry/health.ts";
import type { Report } from "../../telemetry/log.ts";
import type { Started, StartOptions } from "../process/started.ts";
import { worstCheck } from "../process/status.ts";
import { type CompileCache, openCompileCache } from "./compile-cache.ts";
import { LAST_WORDS_MS, Team } from "./team.ts";

/** A scrape waits so long for a process that does not answer, then takes what it told before. */
const ASK_MS_MAX = 500;

export type SupervisorOptions = StartOptions & { readonly version: string };

/**
 * A gateway of several processes. This one serves no request: it starts the others, replaces those
 * that end, reads the configuration for all, and answers on the admin listener. Rejects like `start`,
 * with no process left behind.
 */
export async function startWorkers(
  config: Config,
  count: number,
  options: SupervisorOptions,
): Promise<Started> {
  const report: Report = (level, message, details) => options.log[level](message, details);
  const now = options.now ?? Date.now;
  const closers: (() => Promise<unknown>)[] = [];
  try {
    const keys = await openKeyStore(config, { now, report, watch: true });
    closers.push(() => keys.close());
    // This process decides nothing: it reads accounts and lifts bans, and is not counted as a
    // gateway by the others (docs/reference/store.md#shares).
    const quotas = await openQuotaStore(config, { now, report });
    closers.push(() => quotas.close());
    const counting = createCounting();
    const cache = await openCompileCache();
    closers.push(() => cache.close());
    const team = new Team(config, {
      count,
      variables: cache.variables,
      log: options.log,
      told: ({ counted }) => addCounted(counting, counted),
      lines: (lines) => options.relay?.(lines),
    });
    closers.push(() => team.kill());
    await team.open();
    const supervisor = new Supervisor(config, options, { keys, quotas, counting, team, cache });
    await supervisor.openAdmin();
    return supervisor;
  } catch (error) {
    for (const close of closers.reverse()) await close().catch(() => {});
    throw error;
  }
}

type Parts = {
  readonly keys: KeyStore;
  readonly quotas: QuotaStore;
  readonly counting: Counting;
  readonly team: Team;
  readonly cache: CompileCache;
};

class Supervisor implements Started {
  #config: Config;
  readonly #options: SupervisorOptions;
  readonly #parts: Parts;
  readonly #now: () => number;
  #admin: Admin | undefined;
  #draining = false;
  #stopping: Promise<void> | undefined;
  #reloading: Promise<unknown> = Promise.resolve();
  #lastReloadFailed: string | undefined;

  constructor(config: Config, options: SupervisorOptions, parts: Parts) {
    this.#config = config;
    this.#options = options;
    this.#parts = parts;
    this.#now = options.now ?? Date.now;
    parts.counting.configured(config, this.#now());
  }

  get urls(): Readonly<Record<string, string>> {
    return this.#parts.team.urls;
  }

  get adminUrl(): string | undefined {
    return this.#admin?.url;
  }

  async openAdmin(): Promise<void> {
    const { admin } = this.#config;
    if (admin === undefined) return;
    const { keys, quotas, counting, team } = this.#parts;
    this.#admin = await openAdmin(admin, {
      config: () => this.#config,
      keys,
      quotas,
      checks: () => this.#checks(),
      reload: () => this.reload(),
      counting,
      watched: this.#watched(),
      gather: () => team.ask(ASK_MS_MAX),
      log: this.#options.log,
      now: this.#now,
    }).catch((error: unknown) => {
      throw cannotListen(error, formatAddress(admin.listen), "admin.listen");
    });
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

  /** Read and judged here, once: a mistake reaches none of the processes. */
  async #reloadOnce(): Promise<Reloaded> {
    const { keys, quotas, counting, team } = this.#parts;
    const loaded = await this.#options.load();
    const inForce = { from: this.#config, records: keys.list(), nowMs: this.#now() };
    const next = judgeReload(loaded, inForce);
    if (!next.ok) {
      this.#failed(whyNot(next));
      return next;
    }
    const { config } = next;
    const { taken, reasons } = await team.reload(config);
    if (!taken) {
      this.#failed(reasons);
      return { ok: false, mistakes: [], reasons };
    }
    this.#config = config;
    this.#options.log.setLevel(config.log.level);
    quotas.forget();
    counting.configured(config, this.#now());
    this.#lastReloadFailed = undefined;
    if (reasons.length > 0) {
      for (const why of reasons) this.#options.log.error("config_incomplete", { why });
      counting.reloaded("failure");
      return { ok: false, mistakes: [], reasons, partly: true };
    }
    counting.reloaded("success");
    this.#options.log.info("config_reloaded", { hash: config.hash });
    return { ok: true, hash: config.hash };
  }

  #failed(reasons: readonly string[]): void {
    for (const why of reasons) this.#options.log.error("config_refused", { why });
    this.#parts.counting.reloaded("failure");
    [this.#lastReloadFailed] = reasons;
  }

  #watched(): Watched {
    const { team, quotas } = this.#parts;
    const { logDropped = () => 0, version } = this.#options;
    return {
      version,
      inFlight: () => team.gauges.inFlight,
      tunnels: () => team.gauges.tunnels,
      upstreams: () => team.gauges.upstreams,
      storeUp: () => team.gauges.storeUp,
      storeUnsafePolicy: () => team.gauges.storeUnsafePolicy,
      storeCommands: () => team.gauges.storeCommands + (quotas.commands?.() ?? 0),
      logDropped: () => team.gauges.logDropped + logDropped(),
      workers: () => ({ serving: team.serving, restarts: team.restarts }),
    };
  }

  /** The worst of all processes; of those that serve none, this one's own. */
  #checks(): Checks {
    const { team, keys, quotas } = this.#parts;
    const { checks } = team;
    const own = checksOf({
      reloadFailed: this.#lastReloadFailed,
      store: checks.length > 0 ? worstCheck(checks, "store") : quotas.health(),
      keys: checks.length > 0 ? worstCheck(checks, "keys") : keys.health(),
      upstreams: team.gauges.upstreams,
      draining: this.#draining,
    });
    return { ...own, workers: team.health };
  }

  async #stopOnce(): Promise<void> {
    const { team, quotas, keys, cache } = this.#parts;
    this.#draining = true;
    await team.stop(drainTimes(this.#config).wholeMs + LAST_WORDS_MS);
    await cache.close();
    await this.#admin?.close();
    await quotas.close();
    await keys.close();
  }
}
