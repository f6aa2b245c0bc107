import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import {
  type FailoverOutcome,
  failOverStore,
  type RedisAddress,
} from "../../stores/open-stores.ts";
import { type CheckReport, PromiseChecker, type PromisedLimit, type TimeSpan } from "./checker.ts";
import { type CountingProxy, startCountingProxy } from "./counting-proxy.ts";
import { type LoadClient, LoadGenerator } from "./load-generator.ts";
import { OutageTracker } from "./outage-tracker.ts";
import {
  type ChildHandle,
  type GatewayChild,
  runVerbJson,
  startGatewayProcess,
  startPetsProcess,
  startRedis,
} from "./processes.ts";

/** A promise that is broken on purpose. */
export type PlantedFault = "limit" | "retry-after" | "forward";

export type ProveOptions = {
  readonly gateways: number;
  /** A Redis elsewhere; without it one is started, where it is installed. */
  readonly redis: RedisAddress | undefined;
  readonly seconds: number;
  readonly fault: PlantedFault | undefined;
  /** The command that runs this program again. */
  readonly self: readonly [string, ...string[]];
  readonly tell: (doing: string) => void;
  /** Aborted where the proof is to end early. */
  readonly signal: AbortSignal;
};

export type ProofReport = CheckReport & {
  readonly gateways: number;
  readonly store: "redis" | "memory";
  readonly forwarded: number;
  readonly doubleForwards: number;
  readonly chargesLost: number;
  readonly chargesDoubled: number;
  /** Units that were charged twice, and that a gateway told as uncertain. */
  readonly uncertain: number;
  /** For how long the store stood still; 0 where it is not ours to stop. */
  readonly storeAwayMs: number;
  readonly gatewaysKilled: number;
  /** The planned failover of a Sentinel or a Cluster: the new master, or why there was none. */
  readonly failover: FailoverOutcome | null;
  /** From when to when gateways decided by their shares. */
  readonly away: readonly TimeSpan[];
};

/** The windows of each plan; the long one has room for everything, and counts every charge. */
const PLANS = {
  brisk: { window: "second", limit: 20 },
  steady: { window: "minute", limit: 150 },
  polite: { window: "second", limit: 3 },
} as const satisfies Readonly<Record<string, PromisedLimit>>;
const DAY_LIMIT = 1_000_000_000;
const ACCOUNTS_EACH = 3;
/** The time within which the store comes back and what was admitted without it is charged. */
const SETTLE_MS_MAX = 10_000;
const AWAY_MS_MAX = 2_500;

/**
 * Starts gateways, pets and a Redis, loads them over edges of windows, stops the store and kills a
 * gateway on the way, and judges all of it from outside. Everything started has ended when this
 * resolves or rejects.
 */
export async function runProof(wanted: ProveOptions): Promise<ProofReport> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-prove-"));
  const stops: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  try {
    return await new Trial(wanted, folder, stops).run();
  } finally {
    for (const stop of stops.toReversed()) await stop().catch(() => {});
  }
}

class Trial {
  readonly #wanted: ProveOptions;
  readonly #folder: string;
  readonly #stops: (() => Promise<unknown>)[];
  readonly #gateways: GatewayChild[] = [];
  readonly #away = new OutageTracker();
  #uncertain = 0;
  #redis: (ChildHandle & { url: string }) | undefined;

  constructor(wanted: ProveOptions, folder: string, stops: (() => Promise<unknown>)[]) {
    this.#wanted = wanted;
    this.#folder = folder;
    this.#stops = stops;
  }

  async run(): Promise<ProofReport> {
    const { self, fault, tell, redis } = this.#wanted;
    tell("Starting Redis, pets and gateways");
    if (redis === undefined) this.#redis = this.#keep(await startRedis(this.#folder));
    const pets = this.#keep(await startPetsProcess(self)) as ChildHandle & { url: string };
    const witness = await startCountingProxy(pets.url, fault === "forward");
    this.#stops.push(() => witness.close());
    const count = this.#store === undefined ? 1 : this.#wanted.gateways;
    const configs = await this.#writeConfigs(witness, count);
    const clients = await this.#issue(configs[0] as string);
    for (const config of configs) {
      const hear: Parameters<typeof startGatewayProcess>[2] = (line) =>
        this.#away.hear(config, line);
      const gateway = this.#keep(await startGatewayProcess(self, config, hear)) as GatewayChild;
      this.#gateways.push(gateway);
      this.#away.watch(gateway);
    }
    const promised = new Map(clients.map(({ account, plan }) => [account, PLANS[plan]]));
    const judge = new PromiseChecker(promised, count, this.#wanted.redis === undefined);
    const { storeAwayMs, killed, failover } = await this.#loadAll(judge, clients);
    tell("Comparing the charges with the store");
    const charges = await this.#compareCharges(judge, clients);
    const seen = witness.seen();
    return {
      ...judge.judged(this.#away.spans),
      away: this.#away.spans.map(({ fromMs, toMs }) => {
        return { fromMs, toMs: Math.min(toMs, Date.now()) };
      }),
      ...charges,
      gateways: count,
      store: this.#store === undefined ? "memory" : "redis",
      forwarded: seen.requests,
      doubleForwards: seen.twice,
      storeAwayMs,
      gatewaysKilled: killed,
      failover,
    };
  }

  get #store(): string | undefined {
    return this.#wanted.redis?.url ?? this.#redis?.url;
  }

  #keep<T extends ChildHandle | undefined>(child: T): T {
    if (child !== undefined) this.#stops.push(() => child.stop());
    return child;
  }

  async #writeConfigs(witness: CountingProxy, count: number): Promise<string[]> {
    const prefix = `prove-${Date.now().toString(36)}`;
    const files: string[] = [];
    for (let i = 0; i < count; i++) {
      const isBroken = this.#wanted.fault === "limit" && i === count - 1;
      const file = join(this.#folder, `gateway-${i}.yaml`);
      // One of several gateways counts by itself; a single one admits one unit more.
      const further = isBroken && count === 1 ? 1 : 0;
      const text = configText({
        ...{ number: i, gateways: count, store: this.#store, upstream: witness.origin, further },
        prefix: isBroken && count > 1 ? `${prefix}-alone` : prefix,
      });
      await writeFile(file, text, { mode: 0o600 });
      files.push(file);
    }
    return files;
  }

  async #issue(config: string): Promise<(LoadClient & { readonly plan: keyof typeof PLANS })[]> {
    const { self } = this.#wanted;
    const plans = Object.keys(PLANS) as (keyof typeof PLANS)[];
    const issued = plans.map(async (plan) => {
      const terms = ["--env", "proof", "--plan", plan, "--count", String(ACCOUNTS_EACH)];
      const args = ["keys", "create", ...terms, "--config", config, "--json"];
      const keys = await runVerbJson<LoadClient[]>(self, args);
      return keys.map(({ account, key }) => ({ account, key, plan }));
    });
    return (await Promise.all(issued)).flat();
  }

  /** The load, and what is done to the store and to a gateway on the way. */
  async #loadAll(
    judge: PromiseChecker,
    clients: readonly (LoadClient & { readonly plan: string })[],
  ): Promise<Pick<ProofReport, "storeAwayMs" | "failover"> & { readonly killed: number }> {
    const { seconds, tell, fault, signal } = this.#wanted;
    const alive = [...this.#gateways];
    const isRetryAfterLess = fault === "retry-after";
    const origins = () => alive.map(({ url }) => url);
    const load = new LoadGenerator({ judge, origins, isRetryAfterLess });
    const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => {});
    const polite = clients.filter(({ plan }) => plan === "polite");
    tell("Loading");
    load.start(
      clients.filter(({ plan }) => plan !== "polite"),
      polite,
    );
    let storeAwayMs = 0;
    let failingOver: Promise<FailoverOutcome> | undefined;
    await pause(seconds * 400);
    if (this.#redis !== undefined && fault === undefined) {
      tell("Taking the store away");
      storeAwayMs = Math.min(AWAY_MS_MAX, seconds * 200);
      await this.#stopStore(this.#redis, storeAwayMs, pause);
    } else if (fault === undefined && this.#canFailOver) {
      tell("Having the store fail over");
      failingOver = failOverStore(this.#wanted.redis as RedisAddress);
      await pause(seconds * 200);
    } else await pause(seconds * 200);
    await pause(seconds * 200);
    let killed = 0;
    if (alive.length > 1 && fault === undefined) {
      // One that is killed while the store is away takes with it what it has not charged yet.
      await this.#untilBack(pause);
      tell("Killing a gateway");
      await this.#noteUncertain(alive.at(-1) as GatewayChild);
      this.#away.killed();
      alive.pop()?.process.kill("SIGKILL");
      killed = 1;
    }
    await pause(seconds * 200);
    // A master that was replaced goes on taking writes for a while: they are gone in the end.
    const failover = (await failingOver) ?? null;
    await this.#untilBack(pause);
    await load.stop();
    await this.#away.stop();
    signal.throwIfAborted();
    for (const gateway of alive) await this.#noteUncertain(gateway);
    return { storeAwayMs, killed, failover };
  }

  get #canFailOver(): boolean {
    const kind = this.#wanted.redis?.kind;
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

  /** Resolves when every gateway that found the store away has said that it is back. */
  async #untilBack(pause: (ms: number) => Promise<unknown>): Promise<void> {
    const untilMs = Date.now() + SETTLE_MS_MAX;
    await pause(100);
    while (this.#away.isOpen && Date.now() < untilMs) await pause(20);
  }

  /** Adds the units that a gateway itself says it may have charged twice. */
  async #noteUncertain(gateway: GatewayChild): Promise<void> {
    this.#uncertain += await this.#away.look(gateway);
  }

  /** The count of the day is all that was admitted, and at most what was never answered more. */
  async #compareCharges(judge: PromiseChecker, clients: readonly LoadClient[]) {
    const untilMs = Date.now() + SETTLE_MS_MAX;
    for (;;) {
      let [chargesLost, chargesDoubled] = [0, 0];
      for (const { account } of clients) {
        const used = await this.#usedToday(account);
        const admitted = judge.admittedOf(account);
        const most = admitted + judge.unansweredOf(account);
        chargesLost += Math.max(0, admitted - used);
        chargesDoubled += Math.max(0, used - most);
      }
      // Units that were admitted while the store was away are charged a moment later.
      if (chargesLost === 0 || Date.now() > untilMs || this.#wanted.fault === "limit") {
        const uncertain = Math.min(this.#uncertain, chargesDoubled);
        return { chargesLost, chargesDoubled: chargesDoubled - uncertain, uncertain };
      }
      await sleep(100);
    }
  }

  async #usedToday(account: string): Promise<number> {
    const { adminUrl } = this.#gateways[0] as GatewayChild;
    const response = await fetch(`${adminUrl}/api/usage/${account}`);
    if (!response.ok) throw new Error(`Cannot read the usage of ${account}: ${response.status}`);
    const { windows } = (await response.json()) as {
      windows: readonly { readonly window: string; readonly used: number }[];
    };
    return windows.find(({ window }) => window === "day")?.used ?? 0;
  }
}

type Settings = {
  readonly number: number;
  readonly gateways: number;
  readonly store: string | undefined;
  readonly prefix: string;
  readonly upstream: string;
  /** Units above the limits that are promised. */
  readonly further: number;
};

function configText({ number, gateways, store, prefix, upstream, further }: Settings): string {
  const plans = Object.entries(PLANS).map(([name, { window, limit }]) => {
    return [name, { [window]: limit + further, day: DAY_LIMIT }];
  });
  // JSON is YAML.
  return JSON.stringify({
    store: store ?? "memory",
    ...(store === undefined ? {} : { storePrefix: prefix, expectedGateways: gateways }),
    keys: "./keys.json",
    stateFile: `./state-${number}.json`,
    environments: {
      proof: {
        ...{ listen: "127.0.0.1:0", basePath: "/v1", keyTag: "proof", upstreams: [upstream] },
      },
    },
    plans: Object.fromEntries(plans),
    bans: "off",
    admin: { listen: "127.0.0.1:0" },
    limits: { drain: "1s" },
  });
}
