import { type ChildProcess, type StdioOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { eventually } from "../../test/support/poll.ts";

/** One of the gateways that are compared. */
export type Peer = {
  readonly url: string;
  /** The process that serves: its CPU is counted. */
  readonly pid: number;
  stop(): Promise<void>;
};

export type PeerOptions = {
  /** A new folder for what it writes. */
  readonly directory: string;
  readonly port: number;
  readonly redisPort: number;
  readonly backendPort: number;
  readonly keys: readonly string[];
};

/** Far above what wrk asks for in an hour: nothing is refused. */
export const LIMITS = { minute: 100_000_000, day: 1_000_000_000 };

export type Server = { readonly child: ChildProcess; stop(): Promise<void> };

/** Starts a program and waits until it listens; rejects, with nothing left running, if it does not. */
export async function startServer(
  port: number,
  command: readonly [program: string, ...args: string[]],
  stdio: StdioOptions,
): Promise<Server> {
  const [program, ...args] = command;
  const child = spawn(program, args, { stdio });
  const exited = once(child, "exit");
  const stop = async () => {
    child.kill("SIGTERM");
    await exited;
  };
  try {
    await eventually(() => child.exitCode !== null || listens(port), { withinMs: 10_000 });
    if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode}`);
  } catch (error) {
    await stop();
    throw error;
  }
  return { child, stop };
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
