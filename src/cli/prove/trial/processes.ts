import { type ChildProcess, spawn } from "node:child_process";
import { type AddressInfo, connect, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { PetsMessage } from "../../../server/process/process-context.ts";

const START_MS_MAX = 60_000;
const STOP_MS_MAX = 5_000;
/** How long what a process said last is waited for. What it started may hold its stderr for longer. */
const LAST_WORDS_MS_MAX = 1_000;

/** A process that was started here and must be stopped here. */
export type ChildHandle = {
  readonly process: ChildProcess;
  readonly gone: Promise<void>;
  /** Sends SIGTERM, then SIGKILL if that takes too long. */
  stop(): Promise<void>;
};

function start(
  [program, ...args]: readonly [string, ...string[]],
  {
    onOut,
    channel = false,
  }: { readonly onOut?: (text: string) => void; readonly channel?: boolean },
): ChildHandle & { readonly said: () => string; readonly closed: Promise<void> } {
  const out = onOut === undefined ? "ignore" : "pipe";
  const stdio = channel
    ? (["ignore", out, "pipe", "ipc"] as const)
    : (["ignore", out, "pipe"] as const);
  const child = spawn(program, args, { stdio: [...stdio] });
  let said = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => onOut?.(text));
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    said = (said + text).slice(-2_000);
  });
  const gone = new Promise<void>((resolve) => {
    child.once("exit", () => resolve());
    child.once("error", (error) => {
      said += error.message;
      resolve();
    });
  });
  const closed = new Promise<void>((resolve) => {
    child.once("close", () => resolve());
  });
  return {
    ...{ process: child, gone, closed },
    said: () => said.trim(),
    stop: async () => {
      // A stopped process handles no other signal before it continues.
      child.kill("SIGCONT");
      // The pets of a parent leave signals to it, and end when its channel does.
      if (child.connected) child.disconnect();
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS_MAX);
      await gone;
      clearTimeout(timer);
    },
  };
}

/** Resolves with the value once there is one. Rejects if the process ends before that. */
async function ready<T>(
  name: string,
  child: ReturnType<typeof start>,
  value: Promise<T>,
): Promise<T> {
  const ended = child.gone.then(async () => {
    await Promise.race([child.closed, sleep(LAST_WORDS_MS_MAX, undefined, { ref: false })]);
    throw new Error(`Cannot start ${name}: ${child.said() || "it ended at once"}`);
  });
  const late = sleep(START_MS_MAX, undefined, { ref: false }).then(() => {
    throw new Error(`Cannot start ${name}: it was not ready in ${START_MS_MAX / 1_000} s`);
  });
  try {
    return await Promise.race([value, ended, late]);
  } catch (error) {
    await child.stop();
    throw error;
  }
}

/** A Redis on loopback that saves nothing; undefined if none is installed. */
export async function startRedis(
  folder: string,
): Promise<(ChildHandle & { url: string }) | undefined> {
  const port = await freePort();
  const memory = ["--save", "", "--appendonly", "no", "--dir", folder];
  const child = start(
    ["redis-server", "--bind", "127.0.0.1", "--port", String(port), ...memory],
    {},
  );
  let isAwaited = true;
  const answers = (async () => {
    while (isAwaited && !(await listens(port))) await sleep(20);
  })();
  try {
    await ready("redis-server", child, answers);
  } catch (error) {
    if (child.said().includes("ENOENT")) return undefined;
    throw error;
  } finally {
    isAwaited = false;
  }
  return { ...child, url: `redis://127.0.0.1:${port}` };
}

export async function startPetsProcess([node, main = ""]: SelfCommand): Promise<
  ChildHandle & { url: string }
> {
  const child = start([node, main, "pets", "--listen", "127.0.0.1:0", "--seed"], { channel: true });
  const told = new Promise<string>((resolve, reject) => {
    child.process.once("message", (message: PetsMessage) => {
      if ("failed" in message) reject(new Error(`Cannot start the pets: ${message.failed}`));
      else resolve(message.listening);
    });
  });
  return { ...child, url: await ready("the pets", child, told) };
}

type SelfCommand = readonly [string, ...string[]];
export type GatewayChild = ChildHandle & { readonly url: string; readonly adminUrl: string };
export type LogLine = Readonly<Record<string, unknown>> & { readonly msg: string };

/** Starts a gateway in its own process; `onLine` is called with every line of its log. */
export async function startGatewayProcess(
  [node, main = ""]: SelfCommand,
  config: string,
  onLine: (line: LogLine) => void,
): Promise<GatewayChild> {
  let rest = "";
  let tell: (line: LogLine) => void = () => {};
  const serving = new Promise<LogLine>((resolve) => {
    tell = (line) => (line.msg === "serving" ? resolve(line) : undefined);
  });
  const onOut = (text: string) => {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    for (const one of lines) {
      const line = JSON.parse(one) as LogLine;
      tell(line);
      onLine(line);
    }
  };
  const child = start([node, main, "start", "--config", config], { onOut });
  const { urls, admin } = await ready("a gateway", child, serving);
  const url = Object.values(urls as Record<string, string>)[0] ?? "";
  return { ...child, url, adminUrl: String(admin) };
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

function listens(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    const tell = (is: boolean) => {
      socket.destroy();
      resolve(is);
    };
    socket.once("connect", () => tell(true)).once("error", () => tell(false));
  });
}
