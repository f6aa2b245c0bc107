import { execFile, spawnSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { formKey } from "../../src/core/keys/key.ts";
import { freePort, startRedis } from "../../test/support/redis/redis.ts";
import { find } from "./needs.ts";
import { startNginx } from "./nginx.ts";
import { type Peer, startServer } from "./peer.ts";
import { startTollgate } from "./tollgate.ts";

/** Microseconds of CPU a request, and requests a second. */
export type Cost = { readonly gateway: number; readonly store: number; readonly rps: number };
export type Compared = { readonly ratio: number; readonly tollgate: Cost; readonly nginx: Cost };
export type CompareOptions = { readonly rounds: number; readonly seconds: number };

const KEYS = [1, 1000];
const BACKEND = new URL("backend.ts", import.meta.url).pathname;
const LOAD = new URL("load.lua", import.meta.url).pathname;
const run = promisify(execFile);

/** The median round for each number of keys, by "N keys"; `say` is told of every round. */
export async function comparePeers(
  { rounds, seconds }: CompareOptions,
  say: (text: string) => void,
): Promise<Record<string, Compared>> {
  await using stage = await openStage();
  const results: Record<string, Compared> = {};
  for (const count of KEYS) {
    const file = await stage.keysFile(count);
    const cost = (peer: Peer) => stage.cost(peer, file, seconds);
    // Connections are made and code is warm before anything is counted.
    for (const peer of [stage.nginx, stage.tollgate]) await cost(peer);
    const found: Compared[] = [];
    for (let round = 1; round <= rounds; round++) {
      const tollgate = await cost(stage.tollgate);
      const nginx = await cost(stage.nginx);
      const ratio = (tollgate.gateway + tollgate.store) / (nginx.gateway + nginx.store);
      found.push({ ratio, tollgate, nginx });
      const us = `tollgate ${shown(tollgate)}, nginx ${shown(nginx)}`;
      say(`${count} keys, round ${round}: ${us}, ratio ${ratio.toFixed(2)}`);
    }
    const sorted = found.toSorted((a, b) => a.ratio - b.ratio);
    results[`${count} keys`] = sorted[Math.floor(sorted.length / 2)] as Compared;
  }
  return results;
}

function shown({ gateway, store }: Cost): string {
  return `${gateway.toFixed(1)} + ${store.toFixed(1)} µs`;
}

type Stage = AsyncDisposable & {
  readonly nginx: Peer;
  readonly tollgate: Peer;
  /** The path of a file with the first `count` keys. */
  keysFile(count: number): Promise<string>;
  cost(peer: Peer, keysFile: string, seconds: number): Promise<Cost>;
};

/** Both gateways, with the same keys, in front of one backend and on one Redis. */
async function openStage(): Promise<Stage> {
  await using opening = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "tollgate-bench-"));
  opening.defer(() => rm(directory, { recursive: true, force: true }));
  const redis = await startRedis();
  opening.defer(() => redis.close());
  const client = await redis.client();
  const backendPort = await freePort();
  const command = [process.execPath, BACKEND, String(backendPort)] as const;
  const backend = await startServer(backendPort, command, ["ignore", "inherit", "inherit"]);
  opening.defer(() => backend.stop());

  const keys = Array.from({ length: Math.max(...KEYS) }, () => {
    return formKey("pets", "live", (max) => randomInt(max));
  });
  const common = { directory, redisPort: redis.port, backendPort, keys };
  const nginx = await startNginx({ ...common, port: await freePort() });
  opening.defer(() => nginx.stop());
  const tollgate = await startTollgate({ ...common, port: await freePort() });
  opening.defer(() => tollgate.stop());

  const storeUs = async () => {
    const info = await client.info("cpu");
    const used = (kind: string) => {
      return Number(new RegExp(`^used_cpu_${kind}:(\\S+)`, "m").exec(info)?.[1]);
    };
    return (used("user") + used("sys")) * 1e6;
  };
  const opened = opening.move();
  return {
    nginx,
    tollgate,
    keysFile: async (count) => {
      const file = join(directory, `keys-${count}`);
      await writeFile(file, `${keys.slice(0, count).join("\n")}\n`);
      return file;
    },
    cost: async (peer, keysFile, seconds) => {
      const before = [await cpuUs(peer.pid), await storeUs()] as const;
      const requests = await load(peer.url, keysFile, seconds);
      const gateway = ((await cpuUs(peer.pid)) - before[0]) / requests;
      return {
        gateway,
        store: ((await storeUs()) - before[1]) / requests,
        rps: requests / seconds,
      };
    },
    [Symbol.asyncDispose]: () => opened.disposeAsync(),
  };
}

/** How many requests were answered over 64 connections; rejects when one was refused. */
async function load(url: string, keysFile: string, seconds: number): Promise<number> {
  const args = ["-t1", "-c64", `-d${seconds}s`, "-s", LOAD, url];
  const env = { ...process.env, BENCH_KEYS: keysFile };
  const { stdout } = await run(find("wrk") ?? "wrk", args, { env });
  if (/Non-2xx/.test(stdout)) throw new Error(`${url} refused requests:\n${stdout}`);
  return Number(/(\d+) requests in/.exec(stdout)?.[1]);
}

const TICK_US = 1e6 / Number(spawnSync("getconf", ["CLK_TCK"]).stdout);

/** CPU that a process has used so far, in microseconds: user and system, in ticks of 10 ms. */
async function cpuUs(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_US;
}
