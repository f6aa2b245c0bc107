import { type ChildProcess, spawn } from "node:child_process";
import { dirname, join } from "node:path";
import type { Config } from "../../config/config.ts";
import { formatHostPort, hostPortOf, isLoopback } from "../../core/address.ts";
import type { PetsMessage } from "../../server/process/process-context.ts";
import type { Terminal } from "../framework/terminal.ts";

const READY_MS_MAX = 15_000;
const STOP_MS_MAX = 6_000;

/** The sample backends of the demo. Each has its own process, as real backends do. */
export type DemoPets = { stop(): Promise<void> };

/**
 * Starts pets at each upstream on this machine. If one cannot start, rejects with none left
 * running; the message names the port and the setting. They end when this process ends, for
 * whatever reason, because the channel between the two closes.
 */
export async function startDemoPets(config: Config, terminal: Terminal): Promise<DemoPets> {
  const children: Child[] = [];
  const stop = async () => {
    await Promise.all(children.map((child) => child.stop()));
  };
  try {
    for (const environment of config.environments) {
      for (const [index, upstream] of environment.upstreams.entries()) {
        const url = new URL(upstream);
        const listen = hostPortOf(url);
        if (url.protocol !== "http:" || !isLoopback(listen)) continue;
        const setting = `environments.${environment.name}.upstreams[${index}]`;
        const data = join(dirname(config.stateFile), `pets-${environment.name}.db`);
        children.push(new Child({ listen: formatHostPort(listen), data, setting }, terminal));
      }
    }
    await Promise.all(children.map((child) => child.ready));
    return { stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

type PetsSettings = { readonly listen: string; readonly data: string; readonly setting: string };

class Child {
  readonly #process: ChildProcess;
  readonly #exited: Promise<void>;
  #stopping = false;
  readonly ready: Promise<void>;

  constructor({ listen, data, setting }: PetsSettings, terminal: Terminal) {
    const [node, main = ""] = terminal.process.self;
    const args = [main, "pets", "--listen", listen, "--data", data, "--seed"];
    const child = spawn(node, args, { stdio: ["ignore", "ignore", "inherit", "ipc"] });
    this.#process = child;
    this.#exited = new Promise((resolve) => {
      child.once("exit", () => resolve());
      child.once("error", () => resolve());
    });
    const cannot = (why: string) =>
      new Error(`Cannot start the pets at ${listen} (${setting}): ${why}`);
    this.ready = new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(cannot("they did not say in time")), READY_MS_MAX);
      child.on("message", (message: PetsMessage) => {
        clearTimeout(timer);
        if ("failed" in message) reject(cannot(message.failed));
        else resolve();
      });
      child.once("error", (error) => reject(cannot(error.message)));
      child.once("exit", (status, signal) => {
        clearTimeout(timer);
        reject(cannot(`their process ended with ${signal ?? status}`));
        if (this.#stopping) return;
        terminal.err(`The pets at ${listen} (${setting}) ended with ${signal ?? status}\n`);
      });
    });
    this.ready.catch(() => {
      this.#stopping = true;
    });
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    const child = this.#process;
    if (child.connected) child.disconnect();
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS_MAX);
    await this.#exited;
    clearTimeout(timer);
  }
}
