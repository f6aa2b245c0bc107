import { type ChildProcess, spawn } from "node:child_process";
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Redis, type RedisOptions } from "ioredis";
import type { RedisTls } from "./redis-tls.ts";

/** A real redis-server of the machine, on a port and in a directory of its own. */
export type TestRedis = {
  readonly host: string;
  readonly port: number;
  readonly url: string;
  readonly dir: string;
  /** The address for createRedisQuotaStore: `kind`, `url`, `shown`. */
  readonly address: { readonly kind: "redis"; readonly url: string; readonly shown: string };
  /** A connected client for looking and for doing damage; closed with the server. */
  client(options?: RedisOptions): Promise<Redis>;
  /** Calls of a command so far, from `INFO commandstats`. */
  calls(command: string): Promise<number>;
  /** SIGSTOP: the server keeps its connections and answers nothing. */
  stop(): void;
  /** SIGCONT: it goes on, and executes what it was sent. */
  cont(): void;
  /** SIGKILL: nothing is saved. */
  kill(): Promise<void>;
  /** Starts again on the same port and directory, after `kill` or not. */
  restart(): Promise<void>;
  close(): Promise<void>;
};

export type TestRedisOptions = {
  /** Further command-line options: ["--appendonly", "yes"]. */
  readonly args?: readonly string[];
  /** Runs as a Sentinel, with this configuration file. */
  readonly sentinel?: string;
  /** Default: a free one. */
  readonly port?: number;
  /** Speaks TLS, and nothing else. */
  readonly tls?: RedisTls;
};

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** Below those that the system gives to connections on their way out. */
const PORTS = { from: 10_000, to: 32_000 };
const BLOCK_PORTS = 100;
let nextPort = PORTS.from;

/**
 * A port that nothing listens on now, and that no other process of tests is given: each takes one
 * after the other from a block of its own. Whoever takes a free port first listens on it later, and
 * ports drawn by chance would be those of two tests in one run of four.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    if (nextPort % BLOCK_PORTS === 0) nextPort = await claimBlock();
    const port = nextPort++;
    if (await isFree(port)) return port;
  }
}

/** A block belongs to the process that listens on its first port. */
async function claimBlock(): Promise<number> {
  for (;;) {
    const first = BLOCK_PORTS * randomInt(PORTS.from / BLOCK_PORTS, PORTS.to / BLOCK_PORTS);
    const guard = createServer();
    const isOurs = new Promise<boolean>((resolve) => {
      guard.once("error", () => resolve(false)).listen(first, "127.0.0.1", () => resolve(true));
    });
    guard.unref();
    if (await isOurs) return first + 1;
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer().once("error", () => resolve(false));
    server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  });
}

export async function startRedis(options: TestRedisOptions = {}): Promise<TestRedis> {
  if (options.port !== undefined) return startRedisAt(options.port, options);
  for (let tries = 1; ; tries++) {
    try {
      return await startRedisAt(await freePort(), options);
    } catch (error) {
      // A test of another run may have taken the port meanwhile.
      if (tries === 3 || !/already in use/.test(String(error))) throw error;
    }
  }
}

async function startRedisAt(port: number, options: TestRedisOptions): Promise<TestRedis> {
  const host = "127.0.0.1";
  const dir = await mkdtemp(join(tmpdir(), "tollgate-redis-"));
  const url = `${options.tls === undefined ? "redis" : "rediss"}://${host}:${port}`;
  const clients: Redis[] = [];
  let child = await launch(options, port, dir);

  async function client(more: RedisOptions = {}): Promise<Redis> {
    const redis = new Redis({
      host,
      port,
      lazyConnect: true,
      protocol: 2,
      ...(options.tls === undefined ? {} : { tls: { ca: options.tls.ca } }),
      ...more,
      replyMapping: "legacy",
    });
    redis.on("error", () => undefined);
    clients.push(redis);
    await redis.connect();
    return redis;
  }

  async function calls(command: string): Promise<number> {
    const admin = clients.find(({ status }) => status === "ready") ?? (await client());
    const stats = await admin.info("commandstats");
    return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
  }

  async function kill(): Promise<void> {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  }

  return {
    host,
    port,
    dir,
    url,
    address: { kind: "redis", url, shown: url },
    client,
    calls,
    stop: () => void child.kill("SIGSTOP"),
    cont: () => void child.kill("SIGCONT"),
    kill,
    restart: async () => {
      await kill();
      child = await launch(options, port, dir);
    },
    close: async () => {
      for (const redis of clients) redis.disconnect();
      await kill();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

async function launch(options: TestRedisOptions, port: number, dir: string): Promise<ChildProcess> {
  const common = ["--bind", "127.0.0.1", "--dir", dir];
  const listen = options.tls?.args(port) ?? ["--port", String(port)];
  const args = options.sentinel
    ? [options.sentinel, "--sentinel", ...common, ...listen]
    : [...common, ...listen, "--save", "", "--appendonly", "no", ...(options.args ?? [])];
  const child = spawn("redis-server", args, { stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  child.stdout?.on("data", (text) => {
    said = (said + text).slice(-4000);
  });
  const closed = once(child, "close");
  running.add(child);
  child.once("exit", () => running.delete(child));
  const deadlineMs = Date.now() + 60_000;
  // Not the server of somebody else who has the port: this one says so when it listens.
  const isOwn = () => /Ready to accept connections|Sentinel ID is/.test(said);
  while (!(isOwn() && (await answers(port, options.tls !== undefined)))) {
    if (child.exitCode !== null || Date.now() > deadlineMs) {
      child.kill("SIGKILL");
      await closed;
      throw new Error(`Cannot start redis-server on port ${port}: ${said}`);
    }
    await sleep(10);
  }
  return child;
}

/** True once the server answers anything but "still loading". */
function answers(port: number, tls: boolean): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const end = (up: boolean) => {
      socket.destroy();
      resolve(up);
    };
    socket.setTimeout(5_000, () => end(false));
    socket.once("error", () => end(false));
    socket.once("connect", () => (tls ? end(true) : socket.write("PING\r\n")));
    socket.once("data", (text) => end(!String(text).startsWith("-LOADING")));
  });
}
