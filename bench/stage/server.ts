import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { openSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { eventually } from "../../test/support/poll.ts";
import { familyOf } from "./cpu.ts";

/** A gateway, or a backend, that runs. */
export type Server = {
  readonly port: number;
  /** All its processes: their CPU is counted. */
  readonly pids: readonly number[];
  stop(): Promise<void>;
};

export type Command = {
  readonly command: readonly [program: string, ...args: string[]];
  readonly port: number;
  /** Takes what it prints: most write their access log there. */
  readonly logFile: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Processes that it has once it is up. Default: 1. */
  readonly processes?: number;
};

/** The largest of them reads a million keys first. */
const START_MS_MAX = 120_000;
const STOP_MS_MAX = 10_000;

const running = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of running) child.kill("SIGKILL");
});

/** Starts a program and waits until it serves; rejects, with nothing left running, if it does not. */
export async function startServer(options: Command): Promise<Server> {
  const { command, port, logFile, env = {}, processes = 1 } = options;
  const [program, ...args] = command;
  const errorFile = `${logFile}.errors`;
  const child = spawn(program, args, {
    stdio: ["ignore", openSync(logFile, "a"), openSync(errorFile, "a")],
    env: { ...process.env, ...env },
  });
  running.add(child);
  const exited = once(child, "exit").finally(() => running.delete(child));
  const stop = async () => {
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS_MAX);
    await exited;
    clearTimeout(timer);
  };
  const ended = () => child.exitCode !== null || child.signalCode !== null;
  try {
    const up = async () => (await listens(port)) && familyOf(child.pid ?? 0).length >= processes;
    await eventually(async () => ended() || up(), { withinMs: START_MS_MAX });
    if (ended()) {
      const said = readFileSync(errorFile, "utf8").slice(-1000).trim();
      throw new Error(`${program} ended with ${child.exitCode}: ${said}`);
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return { port, pids: familyOf(child.pid ?? 0), stop };
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: "127.0.0.1", port }, () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}
