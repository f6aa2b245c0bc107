import { setTimeout as sleep } from "node:timers/promises";
import { startCluster } from "../../test/support/redis/redis-engines.ts";
import { messages } from "../load/messages.ts";
import { type Taken, Traffic } from "../load/traffic.ts";
import { cpuUs, familyOf } from "../stage/cpu.ts";
import { type Gateway, makeKeys, metricOf, say, startGateway } from "./house.ts";
import { openForgetfulBackend } from "./traffic.ts";

const WORKERS = 2;
const CONNECTIONS = 64;
const ACCOUNTS = 500;
const SCARCE = 20;
const LIMIT = 300;

export type GatewaysOptions = {
  readonly gateways: number;
  readonly rounds: number;
  readonly sliceMs: number;
};

type Slice = { readonly cpuUs: number; readonly commands: number; readonly answers: number };

/** Load on some of the gateways at once: CPU of all their processes, and commands, a request. */
async function slice(gateways: readonly Gateway[], keys: readonly string[], ms: number) {
  const pids = gateways.flatMap(({ running }) => familyOf(running.pid));
  const commands = async () => {
    const each = await Promise.all(
      gateways.map((g) => metricOf(g, "tollgate_store_commands_total")),
    );
    return each.reduce((sum, one) => sum + one, 0);
  };
  const traffics = gateways.map(({ port }) => {
    return new Traffic({ port, connections: CONNECTIONS, next: messages("closed", keys) });
  });
  await sleep(ms / 4);
  for (const traffic of traffics) traffic.take();
  const [cpuBefore, before] = [cpuUs(pids), await commands()];
  await sleep(ms);
  const taken: Taken[] = traffics.map((traffic) => traffic.take());
  const [cpuAfter, after] = [cpuUs(pids), await commands()];
  await Promise.all(traffics.map((traffic) => traffic.close()));
  const answers = taken.reduce((sum, one) => sum + one.answers, 0);
  return { answers, cpuUs: (cpuAfter - cpuBefore) / answers, commands: (after - before) / answers };
}

/** Requests for accounts with little left, at all gateways at once: the answers by status. */
async function exhaust(gateways: readonly Gateway[], keys: readonly string[]) {
  const traffics = gateways.map(({ port }) => {
    return new Traffic({ port, connections: 16, next: messages("closed", keys) });
  });
  const statuses = new Map<number, number>();
  for (let quiet = 0; quiet < 3; ) {
    await sleep(500);
    let admitted = 0;
    for (const traffic of traffics) {
      for (const [status, count] of traffic.take().statuses) {
        statuses.set(status, (statuses.get(status) ?? 0) + count);
        if (status === 200) admitted += count;
      }
    }
    quiet = admitted === 0 ? quiet + 1 : 0;
  }
  await Promise.all(traffics.map((traffic) => traffic.close()));
  return statuses;
}

const median = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[values.length >> 1] as number;

/** So many gateways of two workers each on a Cluster of three, and keys of two plans. */
async function openHouse(count: number) {
  await using opening = new AsyncDisposableStack();
  const cluster = await startCluster(3);
  opening.defer(() => cluster.close());
  const backend = await openForgetfulBackend();
  opening.defer(() => backend.close());
  const keys = makeKeys([
    { plan: "big", count: ACCOUNTS },
    { plan: "scarce", count: SCARCE },
  ]);
  const config = {
    store: cluster.address.url,
    storeTimeout: "1s",
    workers: WORKERS,
    onStoreFailure: "deny",
    plans: { big: { month: 10 ** 9 }, scarce: { month: LIMIT } },
  };
  const gateways: Gateway[] = [];
  for (let i = 0; i < count; i++) {
    const one = await startGateway({ upstream: backend.origin, keysText: keys.text, config });
    gateways.push(opening.use(one));
  }
  return { gateways, keys, closing: opening.move() };
}

/**
 * Several gateways with two workers each on a Cluster of three: exact, and what a request costs
 * beside one such gateway. Gives what does not hold.
 */
export async function measureGateways(options: GatewaysOptions): Promise<string[]> {
  const { gateways, keys, closing } = await openHouse(options.gateways);
  await using _ = closing;
  const admitted = (await exhaust(gateways, keys.of("scarce"))).get(200) ?? 0;
  say(`admitted ${admitted} of ${SCARCE * LIMIT}`);
  // Code that has just been loaded is slow: each process has its share of requests first.
  await slice(gateways, keys.of("big"), 3 * options.sliceMs);
  const [alone, together]: [Slice[], Slice[]] = [[], []];
  for (let round = 0; round < options.rounds; round++) {
    alone.push(await slice(gateways.slice(0, 1), keys.of("big"), options.sliceMs));
    together.push(await slice(gateways, keys.of("big"), options.sliceMs));
    say(
      `round ${round + 1}: ${alone.at(-1)?.answers} answers by one, ${together.at(-1)?.answers} by all`,
    );
  }
  const [one, all] = [alone, together].map((slices) => ({
    cpu: median(slices.map((each) => each.cpuUs)),
    commands: median(slices.map((each) => each.commands)),
  })) as [{ cpu: number; commands: number }, { cpu: number; commands: number }];
  const ratio = all.cpu / one.cpu;
  say(
    `CPU a request: ${one.cpu.toFixed(0)} us with one gateway, ${all.cpu.toFixed(0)} us with ${options.gateways}: ${ratio.toFixed(2)}`,
  );
  say(
    `commands a request: ${one.commands.toFixed(3)} with one, ${all.commands.toFixed(3)} with ${options.gateways}`,
  );
  return [
    ...(admitted === SCARCE * LIMIT ? [] : [`${admitted} admitted`]),
    ...(ratio <= 1.15 ? [] : [`CPU ${ratio.toFixed(2)} times that of one`]),
  ];
}
