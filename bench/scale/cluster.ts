import { setTimeout as sleep } from "node:timers/promises";
import type { Redis } from "ioredis";
import { startRedis } from "../../test/support/redis/redis.ts";
import { startCluster } from "../../test/support/redis/redis-engines.ts";
import { messages } from "../load/messages.ts";
import { Traffic } from "../load/traffic.ts";
import { cpuUs, familyOf } from "../stage/cpu.ts";
import { countInstructions } from "../stage/instructions.ts";
import { type Gateway, makeKeys, metricOf, say, startGateway } from "./house.ts";
import { openForgetfulBackend } from "./traffic.ts";

const GATEWAYS = 4;
const NODES = 3;
/** Answers of each gateway before anything is counted. */
const WARM_UP = 15_000;
const COMMANDS_MAX = 0.25;
const COST_MAX = 1.3;

export type ClusterOptions = {
  readonly keys: readonly number[];
  /** Connections to each gateway. */
  readonly connections: number;
  readonly rounds: number;
  readonly sliceMs: number;
};

/** The cost of one request: of the gateways and the store together, and commands to the store. */
type Cost = {
  readonly cpuUs: number;
  readonly storeCpuUs: number;
  readonly instructions: number;
  readonly commands: number;
  readonly answers: number;
};

type House = AsyncDisposable & {
  readonly name: string;
  readonly gateways: readonly Gateway[];
  /** The processes of the store. */
  readonly stores: readonly number[];
  readonly keys: readonly string[];
};

/** Four gateways on a Cluster of three nodes, or on one Redis. */
async function openHouse(name: "cluster" | "single", keyCount: number): Promise<House> {
  await using opening = new AsyncDisposableStack();
  const store = name === "cluster" ? await startCluster(NODES) : await startRedis();
  opening.defer(() => store.close());
  const servers = "nodes" in store ? store.nodes : [store];
  const clients = await Promise.all(servers.map((server) => server.client()));
  const stores = await Promise.all(clients.map(processOf));
  const backend = await openForgetfulBackend();
  opening.defer(() => backend.close());
  const keys = makeKeys([{ plan: "big", count: keyCount }]);
  const config = {
    store: store.address.url,
    storeTimeout: "1s",
    onStoreFailure: "deny",
    plans: { big: { day: 10 ** 9, month: 10 ** 9 } },
  };
  const gateways: Gateway[] = [];
  for (let i = 0; i < GATEWAYS; i++) {
    const one = await startGateway({ upstream: backend.origin, keysText: keys.text, config });
    gateways.push(opening.use(one));
  }
  const closing = opening.move();
  return {
    name,
    gateways,
    stores,
    keys: keys.of("big"),
    [Symbol.asyncDispose]: () => closing.disposeAsync(),
  };
}

async function processOf(client: Redis): Promise<number> {
  return Number(/process_id:(\d+)/.exec(await client.info("server"))?.[1]);
}

/** Code that has just been loaded is slow: each gateway has its share of requests first. */
async function warmUp(house: House): Promise<void> {
  const traffics = house.gateways.map(({ port }) => {
    return new Traffic({ port, connections: 64, next: messages("closed", house.keys) });
  });
  while (traffics.some((traffic) => traffic.answers < WARM_UP)) await sleep(100);
  await Promise.all(traffics.map((traffic) => traffic.close()));
}

async function slice(house: House, connections: number, ms: number): Promise<Cost> {
  const { gateways, stores, keys } = house;
  const pids = gateways.flatMap(({ running }) => familyOf(running.pid));
  const commands = async () => {
    const name = "tollgate_store_commands_total";
    const each = await Promise.all(gateways.map((gateway) => metricOf(gateway, name)));
    return each.reduce((sum, one) => sum + one, 0);
  };
  const traffics = gateways.map(({ port }, i) => {
    // Each gateway begins elsewhere, so that they do not ask for the same account all the time.
    const at = Math.floor((i * keys.length) / gateways.length);
    const own = [...keys.slice(at), ...keys.slice(0, at)];
    return new Traffic({ port, connections, next: messages("closed", own) });
  });
  await sleep(ms / 4);
  const counting = countInstructions([...pids, ...stores], ms);
  for (const traffic of traffics) traffic.take();
  const [ours, theirs, sent] = [cpuUs(pids), cpuUs(stores), await commands()];
  const instructions = (await counting) ?? Number.NaN;
  if (Number.isNaN(instructions)) await sleep(ms);
  const taken = traffics.map((traffic) => traffic.take());
  const answers = taken.reduce((sum, each) => sum + (each.statuses.get(200) ?? 0), 0);
  const others = taken.reduce((sum, each) => sum + each.answers, 0) - answers;
  const [oursAfter, theirsAfter, sentAfter] = [cpuUs(pids), cpuUs(stores), await commands()];
  await Promise.all(traffics.map((traffic) => traffic.close()));
  if (others > 0) say(`${others} answers on ${house.name} were not 200`);
  return {
    answers,
    cpuUs: (oursAfter - ours + theirsAfter - theirs) / answers,
    storeCpuUs: (theirsAfter - theirs) / answers,
    instructions: instructions / answers,
    commands: (sentAfter - sent) / answers,
  };
}

function medianOf(costs: readonly Cost[], what: keyof Cost): number {
  const values = costs.map((each) => each[what]).sort((a, b) => a - b);
  return values[values.length >> 1] as number;
}

function tell(title: string, costs: readonly Cost[]): void {
  const of = (what: keyof Cost) => medianOf(costs, what);
  say(
    `${title}: ${of("commands").toFixed(3)} commands, ${of("cpuUs").toFixed(1)} us CPU (store ${of("storeCpuUs").toFixed(1)}), ${(of("instructions") / 1_000).toFixed(1)} k instructions a request; ${of("answers")} answers`,
  );
}

/**
 * Four gateways on a Cluster of three nodes beside four on one Redis, in turns: commands and CPU of
 * a request, gateways and store together. Gives what is worse than promised.
 */
export async function measureCluster(options: ClusterOptions): Promise<string[]> {
  const worse: string[] = [];
  for (const keys of options.keys) {
    await using cluster = await openHouse("cluster", keys);
    await using single = await openHouse("single", keys);
    const houses = [cluster, single];
    const costs = new Map<House, Cost[]>(houses.map((house) => [house, []]));
    await Promise.all(houses.map(warmUp));
    for (let round = 0; round < options.rounds; round++) {
      for (const house of houses) {
        costs.get(house)?.push(await slice(house, options.connections, options.sliceMs));
      }
    }
    const [onCluster, onSingle] = houses.map((house) => costs.get(house) ?? []) as [Cost[], Cost[]];
    for (const [name, each] of [
      ["cluster", onCluster],
      ["single", onSingle],
    ] as const) {
      tell(`${keys} keys, ${options.connections} connections a gateway, ${name}`, each);
    }
    const by = (what: keyof Cost) => medianOf(onCluster, what) / medianOf(onSingle, what);
    const counted = by("instructions");
    const ratio = Number.isNaN(counted) ? by("cpuUs") : counted;
    say(`cluster beside single: ${by("cpuUs").toFixed(2)} CPU, ${counted.toFixed(2)} instructions`);
    if (ratio > COST_MAX) worse.push(`${ratio.toFixed(2)} times the cost with ${keys} keys`);
    const commands = medianOf(onCluster, "commands");
    if (commands > COMMANDS_MAX) worse.push(`${commands.toFixed(2)} commands with ${keys} keys`);
  }
  return worse;
}
