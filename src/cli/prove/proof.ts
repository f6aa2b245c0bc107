import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type FailoverOutcome,
  failOverStore,
  type RedisAddress,
  removeStore,
  whyUnusable,
} from "../../stores/open-stores.ts";
import { type ChargeComparison, compareCharges } from "./charge-comparison.ts";
import { PromiseChecker } from "./checker.ts";
import { type CountingProxy, startCountingProxy } from "./counting-proxy.ts";
import { excuseFailover } from "./excuse-failover.ts";
import { FailoverLoss } from "./failover-loss.ts";
import { issueKeys, type ProofClient } from "./issue-keys.ts";
import { KillLoss } from "./kill-loss.ts";
import { type LoadClient, LoadGenerator } from "./load-generator.ts";
import { judgeAll } from "./load-judge.ts";
import { MeterChecker } from "./meter-checker.ts";
import { OutageTracker } from "./outage-tracker.ts";
import {
  type ChildHandle,
  type GatewayChild,
  type LogLine,
  startGatewayProcess,
  startPetsProcess,
  startRedis,
} from "./processes.ts";
import type { CheckReport, TimeSpan } from "./promises.ts";
import { delayAnswers, type StoreProxy, startStoreProxy } from "./store-proxy.ts";
import { UncertainCharges } from "./uncertain-charges.ts";
import { apiText, configText, OPERATIONS, PLANS, type PlantedFault } from "./workload.ts";

export type ProveOptions = {
  readonly gateways: number;
  /** A Redis on another machine. If undefined, one is started here, if it is installed. */
  readonly redis: RedisAddress | undefined;
  readonly seconds: number;
  readonly fault: PlantedFault | undefined;
  /** The command that runs this program again. */
  readonly self: readonly [string, ...string[]];
  readonly tell: (doing: string) => void;
  /** Aborted if the proof must end early. */
  readonly signal: AbortSignal;
};

export type ProofReport = CheckReport &
  ChargeComparison & {
    readonly gateways: number;
    readonly store: "redis" | "memory";
    readonly forwarded: number;
    readonly doubleForwards: number;
    /** Units of the meter by which the history differs from those told, and no line names. */
    readonly metersOff: number;
    /** Single replies of the store that were delayed. */
    readonly lateAnswers: number;
    /** For how long the store was stopped; 0 if the proof cannot stop it. */
    readonly storeAwayMs: number;
    readonly gatewaysKilled: number;
    /** The planned failover of a Sentinel or a Cluster: the new master, or why there was none. */
    readonly failover: FailoverOutcome | null;
    /**
     * Units that a failover of Sentinel lost, because its replication is asynchronous: at most those
     * of its busiest second. The others are lost charges.
     */
    readonly failoverLost: number;
    /** The periods in which gateways decided by their shares. */
    readonly away: readonly TimeSpan[];
  };

/** The time within which the store comes back and everything admitted without it is charged. */
const SETTLE_MS_MAX = 10_000;
const AWAY_MS_MAX = 2_500;
/** The load of a busy machine goes on for at most this long, until enough was seen. */
const FURTHER_MS_MAX = 60_000;

/**
 * Starts gateways, pets and a Redis, and loads them across edges of windows. During the load it
 * stops the store and kills a gateway. It judges all of it from outside. When this resolves or
 * rejects, everything that it started has ended, and a Redis that it was given has none of its keys.
 */
export async function runProof(options: ProveOptions): Promise<ProofReport> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-prove-"));
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
  readonly #failoverLoss = new FailoverLoss<FailoverOutcome>();
  readonly #uncertain = new UncertainCharges();
  #redis: (ChildHandle & { url: string }) | undefined;
  #proxy: StoreProxy | undefined;

  constructor(options: ProveOptions, folder: string, stops: (() => Promise<unknown>)[]) {
    this.#options = options;
    this.#folder = folder;
    this.#stops = stops;
  }

  async run(): Promise<ProofReport> {
    const { self, fault, tell, redis } = this.#options;
    tell("Starting Redis, pets and gateways");
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
    const { storeAwayMs, killed, failover } = await this.#loadAll(checker, clients);
    tell("Comparing the charges with the store");
    const charges = await this.#compareCharges(checker, clients);
    const metersOff = await this.#compareMeters(proxy, clients);
    const mostLost = this.#failoverLoss.mostOf(failover, this.#options.redis?.kind);
    const seen = proxy.seen();
    return {
      ...checker.report(this.#outages.spans),
      away: this.#outages.spansUntil(Date.now()),
      ...excuseFailover({ ...charges, metersOff }, mostLost),
      gateways: count,
      store: this.#store === undefined ? "memory" : "redis",
      forwarded: seen.requests,
      doubleForwards: seen.twice,
      lateAnswers: this.#proxy?.held() ?? 0,
      storeAwayMs,
      gatewaysKilled: killed,
      failover,
    };
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

  /** Runs the load. During it, disturbs the store and a gateway. */
  async #loadAll(
    checker: PromiseChecker,
    clients: readonly ProofClient[],
  ): Promise<Pick<ProofReport, "storeAwayMs" | "failover"> & { readonly killed: number }> {
    const { seconds, tell, fault, signal } = this.#options;
    const alive = [...this.#gateways];
    const isRetryAfterLess = fault === "retry-after";
    const origins = () => alive.map(({ url }) => url);
    const load = new LoadGenerator({
      checker: judgeAll({
        ...{ promises: checker, meters: this.#meters },
        ...{ failoverLoss: this.#failoverLoss, killLoss: this.#killLoss },
      }),
      origins,
      isRetryAfterLess,
    });
    const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => {});
    const polite = clients.filter(({ plan }) => plan === "polite");
    tell("Loading");
    load.start(
      clients.filter(({ plan }) => plan !== "polite"),
      polite,
    );
    let storeAwayMs = 0;
    await pause(seconds * 200);
    if (this.#proxy !== undefined && (fault === undefined || fault === "late")) {
      tell("Delaying single answers of the store");
      await delayAnswers(this.#proxy, seconds * 200, { pause, signal });
    } else await pause(seconds * 200);
    if (this.#redis !== undefined && fault === undefined) {
      tell("Taking the store away");
      storeAwayMs = Math.min(AWAY_MS_MAX, seconds * 200);
      await this.#stopStore(this.#redis, storeAwayMs, pause);
    } else if (fault === undefined && this.#canFailOver) {
      tell("Having the store fail over");
      const redis = this.#options.redis as RedisAddress;
      this.#failoverLoss.begin(Date.now(), failOverStore(redis));
      await pause(seconds * 200);
    } else await pause(seconds * 200);
    await pause(seconds * 200);
    let killed = 0;
    if (alive.length > 1 && fault === undefined) {
      await this.#killOne(alive, pause);
      killed = 1;
    }
    await pause(seconds * 200);
    await untilEnough(checker, pause, signal);
    // A master that was replaced accepts writes for a while. They are lost in the end.
    const failover = await this.#failoverLoss.outcome();
    await this.#untilBack(pause);
    await load.stop({ abandoned: signal.aborted });
    signal.throwIfAborted();
    await this.#outages.stop();
    signal.throwIfAborted();
    return { storeAwayMs, killed, failover };
  }

  /** Kills the last of these, and takes it from them. */
  async #killOne(alive: GatewayChild[], pause: (ms: number) => Promise<unknown>): Promise<void> {
    const { tell, signal } = this.#options;
    const doomed = alive.at(-1) as GatewayChild;
    // A gateway that is killed loses what it has not charged yet.
    await this.#untilBack(pause);
    await this.#outages.untilCharged(doomed, SETTLE_MS_MAX, pause, signal);
    tell("Killing a gateway");
    alive.pop();
    const name = String(this.#gateways.indexOf(doomed));
    const chargesMs = this.#outages.chargedUntilMs(doomed);
    const settlementsMs = this.#outages.settledUntilMs(name, doomed, Date.now());
    this.#killLoss.kill(doomed.url, { chargesMs, settlementsMs });
    doomed.process.kill("SIGKILL");
    this.#outages.killed(chargesMs);
  }

  get #canFailOver(): boolean {
    const kind = this.#options.redis?.kind;
    return kind === "sentinel" || kind === "cluster";
  }

  async #stopStore(
    redis: ChildHandle,
    forMs: number,
    pause: (ms: number) => Promise<unknown>,
  ): Promise<void> {
    redis.process.kill("SIGSTOP");
    await pause(forMs);
    redis.process.kill("SIGCONT");
    await this.#untilBack(pause);
  }

  /** Resolves when every gateway that reported an outage has reported its end. */
  async #untilBack(pause: (ms: number) => Promise<unknown>): Promise<void> {
    await pause(100);
    await this.#outages.untilBack(SETTLE_MS_MAX, pause, this.#options.signal);
  }

  #compareCharges(
    checker: PromiseChecker,
    clients: readonly LoadClient[],
  ): Promise<ChargeComparison> {
    const { adminUrl } = this.#gateways[0] as GatewayChild;
    const accounts = clients.map(({ account }) => account);
    const waitMs = this.#waitMs;
    const uncertain = () => this.#uncertain.units;
    const killLostOf = (account: string) => this.#killLoss.unitsOf(account);
    return compareCharges({ adminUrl, accounts, checker, uncertain, killLostOf, waitMs });
  }

  #compareMeters({ usedBy }: CountingProxy, clients: readonly LoadClient[]): Promise<number> {
    const { adminUrl } = this.#gateways[0] as GatewayChild;
    const accounts = clients.map(({ account }) => account);
    const unsettledOf = (account: string) => this.#killLoss.unsettledOf(account);
    const waitMs = this.#waitMs;
    return this.#meters.compare({ adminUrl, accounts, usedBy, unsettledOf, waitMs });
  }
}

async function untilEnough(
  checker: PromiseChecker,
  pause: (ms: number) => Promise<unknown>,
  signal: AbortSignal,
): Promise<void> {
  const untilMs = Date.now() + FURTHER_MS_MAX;
  while (!checker.hasSeenEnough && !signal.aborted && Date.now() < untilMs) await pause(100);
}
