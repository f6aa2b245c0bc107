import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  type FailoverOutcome,
  failOverStore,
  removeStore,
  whyUnusable,
} from "../../stores/open-stores.ts";
import { issueKeys, type ProofClient } from "./issue-keys.ts";
import { type ChargeComparison, compareCharges } from "./judge/charge-comparison.ts";
import { PromiseChecker } from "./judge/checker.ts";
import { excuseFailover, FailoverLoss } from "./judge/failover-loss.ts";
import { KillLoss } from "./judge/kill-loss.ts";
import { MeterChecker } from "./judge/meter-checker.ts";
import { OutageTracker } from "./judge/outage-tracker.ts";
import type { ProofReport, ProveOptions } from "./judge/proof-report.ts";
import { UncertainCharges } from "./judge/uncertain-charges.ts";
import type { LoadClient } from "./load-generator.ts";
import { runLoad, SETTLE_MS_MAX } from "./load-phases.ts";
import { type CountingProxy, startCountingProxy } from "./trial/counting-proxy.ts";
import {
  type ChildHandle,
  type GatewayChild,
  type LogLine,
  startGatewayProcess,
  startPetsProcess,
  startRedis,
} from "./trial/processes.ts";
import { type StoreProxy, startStoreProxy } from "./trial/store-proxy.ts";
import { apiText, configText, OPERATIONS, PLANS } from "./trial/workload.ts";

/**
 * Starts gateways, pets and a Redis, and loads them across edges of windows. During the load it
 * stops the store and kills a gateway. It judges all of it from outside. When this resolves or
 * rejects, everything that it started has ended, and a Redis that it was given has none of its keys.
 */
export async function runProof(options: ProveOptions): Promise<ProofReport> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-prove-")).catch((cause: Error) => {
    const failed = `Cannot make a temporary folder: ${cause.message}`;
    throw new Error(`${failed}; set TMPDIR to a folder that can be written`, { cause });
  });
  const stops: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  try {
    return await new Trial(options, folder, stops).run();
  } catch (error) {
    // An interrupt at a terminal reaches what the proof started as well, and whatever fails by that
    // is not the reason.
    options.signal.throwIfAborted();
    throw error;
  } finally {
    for (const stop of stops.toReversed()) await stop().catch(() => {});
  }
}

class Trial {
  readonly #options: ProveOptions;
  readonly #folder: string;
  readonly #stops: (() => Promise<unknown>)[];
  readonly #prefix = `prove-${Date.now().toString(36)}`;
  readonly #gateways: GatewayChild[] = [];
  readonly #outages = new OutageTracker();
  readonly #meters = new MeterChecker();
  readonly #killLoss = new KillLoss();
  readonly #failoverLoss = new FailoverLoss();
  readonly #uncertain = new UncertainCharges();
  #redis: (ChildHandle & { url: string }) | undefined;
  #proxy: StoreProxy | undefined;

  constructor(options: ProveOptions, folder: string, stops: (() => Promise<unknown>)[]) {
    this.#options = options;
    this.#folder = folder;
    this.#stops = stops;
  }

  async run(): Promise<ProofReport> {
    const { self, fault, tell } = this.#options;
    tell("Starting Redis, pets and gateways");
    await this.#openStore();
    const pets = this.#keep(await startPetsProcess(self)) as ChildHandle & { url: string };
    const proxy = await startCountingProxy(pets.url, fault === "forward");
    this.#stops.push(() => proxy.close());
    const count = this.#store === undefined ? 1 : this.#options.gateways;
    const configs = await this.#writeConfigs(proxy, count);
    let clients: readonly ProofClient[] = [];
    for (const [i, config] of configs.entries()) {
      const hear = (line: LogLine) => this.#hear(String(i), line);
      const gateway = this.#keep(await startGatewayProcess(self, config, hear)) as GatewayChild;
      this.#gateways.push(gateway);
      this.#outages.watch(gateway);
      // The gateways that start later read the keys as they start.
      if (i === 0) clients = await issueKeys(gateway.adminUrl);
    }
    const patient = clients.filter(({ plan }) => plan === "polite");
    const checker = new PromiseChecker({
      limits: new Map(clients.map(({ account, plan }) => [account, PLANS[plan]])),
      operations: new Map(Object.entries(OPERATIONS)),
      patient: new Set(patient.map(({ account }) => account)),
      ...{ gateways: count, isClockOurs: this.#options.redis === undefined },
      uncertainOf: (account) => this.#uncertain.of(account),
    });
    const { storeAwayMs, gatewaysKilled, failover } = await runLoad({
      ...{ options: this.#options, checker, clients, gateways: this.#gateways },
      ...{ redis: this.#redis, proxy: this.#proxy, failOver: this.#failOver },
      ...{ outages: this.#outages, meters: this.#meters },
      ...{ killLoss: this.#killLoss, failoverLoss: this.#failoverLoss },
    });
    tell("Comparing the charges with the store");
    const compared = await this.#compare(checker, proxy, clients);
    const mostLost = this.#failoverLoss.mostOf(failover, this.#options.redis?.kind);
    const seen = proxy.seen();
    return {
      ...checker.report(this.#outages.spans),
      away: this.#outages.spansUntil(Date.now()),
      ...excuseFailover(compared, mostLost),
      gateways: count,
      store: this.#store === undefined ? "memory" : "redis",
      forwarded: seen.requests,
      doubleForwards: seen.twice,
      lateAnswers: this.#proxy?.held() ?? 0,
      storeAwayMs,
      gatewaysKilled,
      failover,
    };
  }

  /** Starts a Redis and a way to it on which answers can be delayed, or looks at the one given. */
  async #openStore(): Promise<void> {
    const { fault, redis } = this.#options;
    if (redis === undefined) this.#redis = this.#keep(await startRedis(this.#folder));
    const why = redis && (await whyUnusable(redis, this.#prefix));
    if (why !== undefined) throw new Error(`Cannot use ${redis?.shown}: ${why}`);
    if (redis !== undefined) this.#stops.push(() => removeStore(redis, this.#prefix));
    if (this.#redis !== undefined) {
      const { port } = new URL(this.#redis.url);
      const proxy = await startStoreProxy(Number(port), fault === "late");
      this.#proxy = proxy;
      this.#stops.push(() => proxy.close());
    } else if (fault === "late") {
      throw new Error("Cannot plant the fault late: it needs redis-server, and no --redis");
    }
  }

  get #failOver(): (() => Promise<FailoverOutcome>) | undefined {
    const { redis } = this.#options;
    if (redis?.kind !== "sentinel" && redis?.kind !== "cluster") return undefined;
    return () => failOverStore(redis);
  }

  /** The time in which charges and settlements may still arrive. */
  get #waitMs(): number {
    return this.#options.fault === undefined ? SETTLE_MS_MAX : 1_000;
  }

  get #store(): string | undefined {
    if (this.#proxy !== undefined) return `redis://127.0.0.1:${this.#proxy.port}`;
    return this.#options.redis?.url;
  }

  #keep<T extends ChildHandle | undefined>(child: T): T {
    if (child !== undefined) this.#stops.push(() => child.stop());
    return child;
  }

  async #writeConfigs(proxy: CountingProxy, count: number): Promise<string[]> {
    const files: string[] = [];
    for (let i = 0; i < count; i++) {
      const fault = i === count - 1 ? this.#options.fault : undefined;
      const file = join(this.#folder, `gateway-${i}.yaml`);
      const text = configText({
        ...{ number: i, gateways: count, store: this.#store, upstream: proxy.origin },
        ...{ prefix: this.#prefix, fault },
      });
      await writeFile(join(this.#folder, `api-${i}.json`), apiText({ fault }));
      await writeFile(file, text);
      files.push(file);
    }
    return files;
  }

  /** `gateway` is its place among the gateways. */
  #hear(gateway: string, line: LogLine): void {
    this.#outages.onLogLine(gateway, line);
    this.#uncertain.onLogLine(line);
    this.#meters.onLogLine(line);
  }

  /** The charges and the units of the meter that the store has, against those of the load. */
  async #compare(
    checker: PromiseChecker,
    { usedBy }: CountingProxy,
    clients: readonly LoadClient[],
  ): Promise<ChargeComparison & { readonly metersOff: number }> {
    const { adminUrl } = this.#gateways[0] as GatewayChild;
    const accounts = clients.map(({ account }) => account);
    const asked = { adminUrl, accounts, waitMs: this.#waitMs };
    const uncertain = () => this.#uncertain.units;
    const killLostOf = (account: string) => this.#killLoss.unitsOf(account);
    const charges = await compareCharges({ ...asked, checker, uncertain, killLostOf });
    const unsettledOf = (account: string) => this.#killLoss.unsettledOf(account);
    const metersOff = await this.#meters.compare({ ...asked, usedBy, unsettledOf });
    return { ...charges, metersOff };
  }
}
