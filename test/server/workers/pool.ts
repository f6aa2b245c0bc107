import assert from "node:assert/strict";
import { loadConfig } from "../../../src/config/load/load.ts";
import type { ProcessStatus } from "../../../src/server/process/status.ts";
import { WorkerPool } from "../../../src/server/workers/worker-pool.ts";
import { createLog } from "../../../src/telemetry/log/log.ts";
import { eventually } from "../../support/poll.ts";
import type { TestRedis } from "../../support/redis/redis.ts";
import { type Change, openFolder } from "./kit.ts";

export type OpenedPool = Pick<Change, "drain" | "level" | "listen"> & {
  readonly onStatus?: (status: ProcessStatus) => void;
  readonly heard?: (line: Readonly<Record<string, unknown>>) => void;
  /** A worker that has said hello waits for this before it is told to start. */
  readonly beforeStart?: () => Promise<unknown>;
  readonly count?: number;
  readonly upstream?: string;
  readonly variables?: Readonly<Record<string, string>>;
};

const ENDS = `process.on("SIGUSR2", () => {
  const { emit } = process;
  process.emit = function (name, message) {
    if (message?.reload) process.exit(7);
    return emit.apply(this, arguments);
  };
  process.stdout.write("it will end\\n");
});`;
/** The variables of a worker that ends when it is to apply a configuration, once it got a SIGUSR2. */
export const ENDS_AT_RELOAD = {
  NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(ENDS)}`,
};

const TELLS_QUESTIONS = `process.on("message", ({ report, reload }) => {
  if (report || reload) process.stdout.write((report ? "report" : "reload") + " heard\\n");
});`;
/** The variables of a worker that writes a line for each question about a reload. */
export const TELLS_EACH_QUESTION = {
  NODE_OPTIONS: `--import data:text/javascript,${encodeURIComponent(TELLS_QUESTIONS)}`,
};

/**
 * A pool of workers, by default of one, on a real Redis. `killed` ends the worker and waits for the
 * next one. Pools of one process that are open at once need ports of their own: of port 0 they all
 * have the same socket.
 */
export async function openPoolOn(redis: Pick<TestRedis, "url">, opened: OpenedPool = {}) {
  const { count = 1, upstream = "http://127.0.0.1:9", variables = {}, ...rest } = opened;
  const { heard = () => {}, onStatus = () => {}, beforeStart = async () => {}, ...change } = rest;
  const folder = await openFolder(redis, upstream);
  await folder.write({ workers: 2, ...change });
  const loaded = await loadConfig(folder.file, {});
  if (!loaded.ok) throw new Error(JSON.stringify(loaded.mistakes));
  const pids: number[] = [];
  const lines: string[] = [];
  const told: Record<string, unknown>[] = [];
  const write = (line: string) => {
    const { time: _, ...one } = JSON.parse(line) as Record<string, unknown>;
    told.push(one);
    if (one.msg === "worker_serves") pids.push(Number(one.pid));
    heard(one);
  };
  const pool = new WorkerPool(loaded.config, {
    count,
    log: createLog({ write }, "info"),
    onStatus,
    onLines: (piece) => lines.push(piece),
    variables,
    handOver: async (given) => {
      await beforeStart();
      return { config: given, gateway: "test" };
    },
  });
  await pool.open();
  return {
    pool,
    config: loaded.config,
    /** The ids of the workers that served, the first of them first. */
    pids,
    lines,
    /** The lines of the pool itself. */
    told,
    pid: () => pids.at(-1) as number,
    killed: async () => {
      const before = pids.length;
      process.kill(pids.at(-1) as number, "SIGKILL");
      await eventually(() => assert.equal(pids.length, before + 1));
    },
    [Symbol.asyncDispose]: async () => {
      await pool.kill();
      await folder[Symbol.asyncDispose]();
    },
  };
}
