import { spawn } from "node:child_process";
import { createWriteStream } from "node:fs";
import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { stringify } from "yaml";
import { startRedis, type TestRedis } from "../../test/support/redis/redis.ts";
import { openTcpProxy, type TcpProxy } from "../../test/support/wire/tcp-proxy.ts";
import { makeKeys } from "../scale/house.ts";

/** Plans of all kinds of windows: wide ones, and ones that a round uses up. */
export const PLANS = {
  wide: { day: 1e9, month: 1e9 },
  second: { second: 12, minute: 1_000 },
  minute: { minute: 60, day: 1e9 },
  day: { hour: 1e9, day: 120 },
  month: { minute: 1e9, month: 90 },
} as const;
export type PlanName = keyof typeof PLANS;

/** The cost of a request to each path; `/limited` has a limit of its own beside the plan's. */
export const COSTS: Readonly<Record<string, number>> = { one: 1, three: 3, none: 0, limited: 1 };
export const OPERATION_LIMIT = 8;

const API = {
  openapi: "3.0.3",
  info: { title: "Trouble", version: "1" },
  paths: Object.fromEntries(
    Object.entries(COSTS).map(([name, cost]) => {
      const limits = name === "limited" ? { "x-limits": { minute: OPERATION_LIMIT } } : {};
      const responses = { "200": { description: "all of it" } };
      return [`/${name}`, { get: { operationId: name, "x-cost": cost, ...limits, responses } }];
    }),
  ),
};

/** A line of a gateway's log. */
export type Line = Readonly<Record<string, unknown>>;

/** A gateway as a process of its own: its lines so far go to `onLine` and to a file. */
export type Gateway = {
  readonly url: string;
  readonly adminUrl: string;
  readonly startedMs: number;
  /** SIGTERM; resolves when it has ended. */
  leave(): Promise<void>;
  kill(): Promise<void>;
};

/** The place of a gateway, with a way of its own to the store. */
export type Slot = { readonly proxy: TcpProxy; gateway: Gateway | undefined };

const SLOTS = 4;
export const GATEWAYS = 3;

/** A Redis and gateways of one checkout of the source. */
export class TroubleHouse {
  readonly name: string;
  readonly slots: Slot[] = [];
  readonly keys: ReturnType<typeof makeKeys>;
  readonly folder: string;
  readonly onLine: (line: Line, at: Gateway) => void;
  redis: TestRedis;
  readonly #source: string;
  readonly #upstream: string;
  readonly #logs: string[] = [];

  private constructor(options: HouseOptions, redis: TestRedis, folder: string) {
    this.name = options.name;
    this.#source = options.source;
    this.#upstream = options.upstream;
    this.onLine = options.onLine;
    this.redis = redis;
    this.folder = folder;
    this.keys = makeKeys(
      Object.keys(PLANS).map((plan) => ({ plan, count: options.accountsOfPlan })),
    );
  }

  static async open(options: HouseOptions): Promise<TroubleHouse> {
    const redis = await startRedis({ args: ["--appendonly", "yes"] });
    const folder = await mkdtemp(join(tmpdir(), "tollgate-trouble-"));
    const house = new TroubleHouse(options, redis, folder);
    await writeFile(join(folder, "keys.json"), house.keys.text);
    await writeFile(join(folder, "api.json"), JSON.stringify(API));
    for (let i = 0; i < SLOTS; i++) {
      house.slots.push({ proxy: await openTcpProxy(redis), gateway: undefined });
    }
    await Promise.all(house.slots.slice(0, GATEWAYS).map((slot) => house.start(slot)));
    return house;
  }

  /** The logs of all gateways so far. */
  get logs(): readonly string[] {
    return this.#logs;
  }

  get gateways(): Gateway[] {
    return this.slots.flatMap(({ gateway }) => gateway ?? []);
  }

  async start(slot: Slot): Promise<void> {
    const name = `gateway-${this.#logs.length}`;
    const file = join(this.folder, `${name}.yaml`);
    const production = {
      listen: "127.0.0.1:0",
      basePath: "/v1",
      keyTag: "live",
      api: "./api.json",
    };
    const config = {
      store: `redis://127.0.0.1:${slot.proxy.port}`,
      keys: "./keys.json",
      stateFile: `./${name}.json`,
      environments: { production: { ...production, upstreams: [this.#upstream] } },
      plans: PLANS,
      bans: "off",
      history: "40d",
      storeTimeout: "50ms",
      expectedGateways: GATEWAYS,
      admin: { listen: "127.0.0.1:0" },
      limits: { drain: "3s" },
    };
    await writeFile(file, stringify(config));
    const log = join(this.folder, `${name}.log`);
    this.#logs.push(log);
    slot.gateway = await startGateway(this.#source, file, log, this.onLine);
  }

  /** Ends Redis and starts it again: with what it has, or empty. */
  async restartRedis(keepsData: boolean): Promise<void> {
    await this.redis.kill();
    if (!keepsData) {
      for (const name of await readdir(this.redis.dir)) {
        await rm(join(this.redis.dir, name), { recursive: true, force: true });
      }
    }
    await this.redis.restart();
  }

  /** Takes all damage away, and waits until every gateway counts with the store again. */
  async heal(): Promise<void> {
    this.redis.cont();
    for (const slot of this.slots) {
      slot.proxy.behave({});
      await slot.proxy.listen().catch(() => undefined);
    }
    const [spare, ...first] = [...this.slots].reverse();
    if (spare?.gateway !== undefined) {
      await spare.gateway.leave();
      spare.gateway = undefined;
    }
    for (const slot of first) if (slot.gateway === undefined) await this.start(slot);
    for (const { adminUrl } of this.gateways) {
      while ((await fetch(`${adminUrl}/readyz`)).status !== 200) await sleep(50);
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.gateways.map((gateway) => gateway.leave()));
    for (const { proxy } of this.slots) await proxy.close();
    await this.redis.close();
    await rm(this.folder, { recursive: true, force: true });
  }
}

export type HouseOptions = {
  readonly name: string;
  /** A checkout of the source, with its packages. */
  readonly source: string;
  readonly upstream: string;
  readonly accountsOfPlan: number;
  readonly onLine: (line: Line, at: Gateway) => void;
};

async function startGateway(
  source: string,
  file: string,
  log: string,
  onLine: TroubleHouse["onLine"],
): Promise<Gateway> {
  const args = [join(source, "src/main.ts"), "start", "--config", file];
  const child = spawn(process.execPath, args, {
    cwd: source,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = new Promise<void>((resolve) => child.once("close", () => resolve()));
  process.once("exit", () => child.kill("SIGKILL"));
  const kept = createWriteStream(log);
  let serving: (line: Line) => void = () => {};
  const served = new Promise<Line>((resolve, reject) => {
    serving = resolve;
    child.once("exit", (code) => reject(new Error(`A gateway ended with ${code}: ${log}`)));
  });
  let gateway: Gateway | undefined;
  createInterface({ input: child.stdout }).on("line", (text) => {
    kept.write(`${text}\n`);
    const line = JSON.parse(text) as Line;
    if (line.msg === "serving") serving(line);
    if (gateway !== undefined) onLine(line, gateway);
  });
  const end = async (signal: "SIGTERM" | "SIGKILL") => {
    child.kill(signal);
    await exited;
    kept.end();
  };
  const { urls, admin } = await served;
  gateway = {
    url: String((urls as Record<string, string>).production),
    adminUrl: String(admin),
    startedMs: Date.now(),
    leave: () => end("SIGTERM"),
    kill: () => end("SIGKILL"),
  };
  return gateway;
}
