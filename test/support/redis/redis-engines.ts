import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Redis } from "ioredis";
import { bucketSlot } from "../../../src/stores/redis/hash-slots.ts";
import { eventually } from "../poll.ts";
import { freePort, startRedis, type TestRedis, type TestRedisOptions } from "./redis.ts";
import type { RedisTls } from "./redis-tls.ts";

export type TestSentinel = {
  readonly address: { readonly kind: "sentinel"; readonly url: string; readonly shown: string };
  readonly master: TestRedis;
  readonly replica: TestRedis;
  /** The first of the Sentinels. */
  readonly sentinel: TestRedis;
  readonly sentinels: readonly TestRedis[];
  /** SENTINEL FAILOVER; resolves at once. */
  failOver(): Promise<void>;
  /** The Sentinels cannot reach the master any more, which serves everyone else. */
  blind(): Promise<void>;
  close(): Promise<void>;
};

export type TestSentinelOptions = {
  /** Default 1, which decides alone; of more, most have to agree. */
  readonly count?: number;
  /**
   * No server dies in the test: a machine that stands still for a moment must not make one look dead,
   * nor a failover that was asked for take too long.
   */
  readonly allLive?: boolean;
};

/** The user of the Sentinels, who alone can lose its rights. */
const WATCHER = { user: "watcher", password: "sees-all" };

/** A master, its replica and Sentinels that watch them; all with TLS, or none. */
export async function startSentinel(
  password?: string,
  tls?: RedisTls,
  { count = 1, allLive = false }: TestSentinelOptions = {},
): Promise<TestSentinel> {
  const speaks = tls === undefined ? {} : { tls };
  const { master, replica } = await startPair(password, speaks);
  const dir = await mkdtemp(join(tmpdir(), "tollgate-sentinel-"));
  const lines = [
    `sentinel monitor main 127.0.0.1 ${master.port} ${Math.floor(count / 2) + 1}`,
    `sentinel down-after-milliseconds main ${allLive ? 20_000 : 400}`,
    `sentinel failover-timeout main ${allLive ? 20_000 : 2_000}`,
    `sentinel auth-user main ${WATCHER.user}`,
    `sentinel auth-pass main ${WATCHER.password}`,
  ];
  const sentinels: TestRedis[] = [];
  const close = async () => {
    await Promise.all([...sentinels, replica, master].map((server) => server.close()));
    await rm(dir, { recursive: true, force: true });
  };
  try {
    const admin = await replica.client(password === undefined ? {} : { password });
    const inSync = async () => /master_link_status:up/.test(await admin.info("replication"));
    await eventually(inSync, { withinMs: 60_000 });
    for (let i = 0; i < count; i++) {
      const file = join(dir, `sentinel-${i}.conf`);
      await writeFile(file, `${lines.join("\n")}\n`);
      sentinels.push(await startRedis({ sentinel: file, ...speaks }));
    }
    for (const sentinel of sentinels) await knowsOthers(sentinel, count - 1);
  } catch (error) {
    await close();
    throw error;
  }
  const login = password === undefined ? "" : `:${password}@`;
  const hosts = sentinels.map(({ port }) => `127.0.0.1:${port}`).join(",");
  const scheme = `${schemeOf(tls)}+sentinel`;
  return {
    address: {
      kind: "sentinel",
      url: `${scheme}://${login}${hosts}/main`,
      shown: `${scheme}://${hosts}/main`,
    },
    master,
    replica,
    sentinel: sentinels[0] as TestRedis,
    sentinels,
    failOver: async () => {
      const client = await (sentinels[0] as TestRedis).client();
      await client.call("SENTINEL", "FAILOVER", "main");
    },
    blind: async () => {
      const admin = await master.client(password === undefined ? {} : { password });
      await admin.call("ACL", "SETUSER", WATCHER.user, "-@all");
    },
    close,
  };
}

type Speaks = Pick<TestRedisOptions, "tls">;

async function startPair(password: string | undefined, speaks: Speaks) {
  const secret =
    password === undefined ? [] : ["--requirepass", password, "--masterauth", password];
  const watcher = ["--user", WATCHER.user, "on", `>${WATCHER.password}`, "~*", "&*", "+@all"];
  const args = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
  args.push(...secret, ...watcher);
  const master = await startRedis({ args, ...speaks });
  const replica = await startRedis({
    args: [...args, "--replicaof", "127.0.0.1", String(master.port)],
    ...speaks,
  });
  return { master, replica };
}

function schemeOf(tls: RedisTls | undefined): "redis" | "rediss" {
  return tls === undefined ? "redis" : "rediss";
}

/** Knows the replica, which it could promote, and so many other Sentinels. */
async function knowsOthers(sentinel: TestRedis, others: number): Promise<void> {
  const watcher = await sentinel.client();
  const ask = (what: string) => watcher.call("SENTINEL", what, "main") as Promise<unknown[]>;
  await eventually(
    async () => {
      const [replicas, sentinels] = [await ask("REPLICAS"), await ask("SENTINELS")];
      const known = [...replicas, ...sentinels].map(String);
      if (replicas.length !== 1 || sentinels.length !== others) return false;
      // Until its first INFO a replica has no role, and is not promoted.
      return !/disconnected|master-link-status,err/.test(known.join());
    },
    { withinMs: 60_000 },
  );
}

export type TestCluster = {
  readonly address: { readonly kind: "cluster"; readonly url: string; readonly shown: string };
  readonly nodes: readonly TestRedis[];
  /** A client of each node, in the same order; it follows no redirection. */
  readonly clients: readonly Redis[];
  /** Which node owns a slot. */
  ownerOf(slot: number): number;
  /** Moves a slot key by key, calling `between` after each step. */
  move(slot: number, to: number, between: () => Promise<void>): Promise<void>;
  close(): Promise<void>;
};

const SLOTS = 16_384;

/** A Cluster of masters that share the slots evenly; `args` are further options of each, `tls` is for all. */
export async function startCluster(
  masters = 3,
  args: readonly string[] = [],
  tls?: RedisTls,
): Promise<TestCluster> {
  const nodes = await Promise.all(Array.from({ length: masters }, () => startNode(args, tls)));
  const clients = await Promise.all(nodes.map(({ server }) => server.client()));
  const ownerOf = (slot: number) => Math.floor((slot * masters) / SLOTS);
  for (const [i, redis] of clients.entries()) {
    const slots = Array.from({ length: SLOTS }, (_, slot) => slot).filter(
      (slot) => ownerOf(slot) === i,
    );
    await redis.call("CLUSTER", "ADDSLOTSRANGE", Number(slots[0]), Number(slots.at(-1)));
    const first = nodes[0];
    if (i > 0 && first)
      await redis.call("CLUSTER", "MEET", "127.0.0.1", first.server.port, first.bus);
  }
  await allMet(clients);
  const servers = nodes.map(({ server }) => server);
  const url = `${schemeOf(tls)}+cluster://${servers.map(({ port }) => `127.0.0.1:${port}`).join(",")}`;
  return {
    address: { kind: "cluster", url, shown: url },
    nodes: servers,
    clients,
    ownerOf,
    move: async (slot, to, between) => {
      const from = ownerOf(slot);
      const [source, target, port] = [clients[from], clients[to], servers[to]?.port];
      if (source === undefined || target === undefined) {
        throw new RangeError(`Cannot move to ${to}`);
      }
      await moveSlot(slot, { source, target, port: Number(port), between });
    },
    close: async () => {
      await Promise.all(servers.map((server) => server.close()));
    },
  };
}

/** Gives the master of bucket 0 a replica that is in sync with it; closed with the test by its caller. */
export async function addReplica(cluster: TestCluster): Promise<TestRedis> {
  const at = cluster.ownerOf(bucketSlot(0));
  const [master, client] = [cluster.nodes[at], cluster.clients[at]];
  if (master === undefined || client === undefined) throw new RangeError("bucket 0 has no master");
  const { server, bus } = await startNode([], undefined);
  const replica = await server.client();
  await client.call("CLUSTER", "MEET", "127.0.0.1", server.port, bus);
  const id = String(await client.call("CLUSTER", "MYID"));
  await eventually(() => replica.call("CLUSTER", "REPLICATE", id), { withinMs: 60_000 });
  await eventually(
    async () => {
      const slots = JSON.stringify(await client.call("CLUSTER", "SLOTS"));
      const isListed = slots.includes(String(server.port));
      return isListed && /master_link_status:up/.test(await replica.info("replication"));
    },
    { withinMs: 60_000 },
  );
  return server;
}

/** A node that knows of no cluster, as one that was removed and reset. */
export async function startClusterNode(): Promise<TestRedis> {
  return (await startNode([], undefined)).server;
}

async function startNode(more: readonly string[], tls: RedisTls | undefined) {
  const bus = String(await freePort());
  const args = ["--cluster-enabled", "yes", "--cluster-port", bus, ...more];
  const secure = tls === undefined ? {} : { tls };
  if (tls !== undefined) args.push("--tls-cluster", "yes");
  const server = await startRedis({ args: ["--cluster-node-timeout", "2000", ...args], ...secure });
  return { bus, server };
}

/** Resolves once every node knows all the others, and that all slots are taken. */
async function allMet(clients: readonly Redis[]): Promise<void> {
  await eventually(
    async () => {
      for (const redis of clients) {
        const info = String(await redis.call("CLUSTER", "INFO"));
        if (!info.includes("cluster_state:ok")) return false;
        if (!info.includes(`cluster_size:${clients.length}`)) return false;
      }
      return true;
    },
    { withinMs: 60_000 },
  );
}

type Move = {
  readonly source: Redis;
  readonly target: Redis;
  /** The port of the target. */
  readonly port: number;
  readonly between: () => Promise<void>;
};

async function moveSlot(slot: number, { source, target, port, between }: Move): Promise<void> {
  const [from, to] = [await source.call("CLUSTER", "MYID"), await target.call("CLUSTER", "MYID")];
  await target.call("CLUSTER", "SETSLOT", slot, "IMPORTING", String(from));
  await source.call("CLUSTER", "SETSLOT", slot, "MIGRATING", String(to));
  await between();
  for (;;) {
    const keys = (await source.call("CLUSTER", "GETKEYSINSLOT", slot, 1)) as string[];
    if (keys[0] === undefined) break;
    await source.call("MIGRATE", "127.0.0.1", port, keys[0], 0, 5_000);
    await between();
  }
  for (const redis of [target, source]) {
    await redis.call("CLUSTER", "SETSLOT", slot, "NODE", String(to));
  }
  await between();
}
