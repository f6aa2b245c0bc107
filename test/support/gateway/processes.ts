import { type ChildProcess, spawn } from "node:child_process";
import { eventually } from "../poll.ts";

const ROOT = new URL("../../../", import.meta.url).pathname;

export type RunOptions = {
  /** Added to a small environment: the machine's own settings do not leak into a test. */
  readonly env?: Readonly<Record<string, string>>;
  /** The repository root unless given. */
  readonly cwd?: string;
  readonly stdin?: string;
  readonly timeoutMs?: number;
  /** The user and the group that it runs as, where the tests are root. */
  readonly uid?: number;
};

export type ProcessResult = {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
};

export type RunningProcess = AsyncDisposable & {
  readonly pid: number;
  readonly child: ChildProcess;
  readonly stdout: () => string;
  readonly stderr: () => string;
  /** The lines of stdout that are JSON objects, in order; other lines are left out. */
  readonly lines: () => Record<string, unknown>[];
  /** The first such line that fits; waits for it, and fails with all output when none comes. */
  line(
    fits: (line: Record<string, unknown>) => boolean,
    withinMs?: number,
  ): Promise<Record<string, unknown>>;
  /** Waits for text on stdout or stderr. */
  says(text: string | RegExp, withinMs?: number): Promise<void>;
  readonly exited: Promise<ProcessResult>;
  /** SIGTERM, then SIGKILL when it has not ended within `withinMs`. */
  stop(withinMs?: number): Promise<ProcessResult>;
  /** SIGKILL. */
  kill(): Promise<ProcessResult>;
};

const alive = new Set<ChildProcess>();
process.once("exit", () => {
  for (const child of alive) child.kill("SIGKILL");
});
/** The runner ends a test file that is over its deadline so: what it started goes with it. */
process.once("SIGTERM", () => process.exit(143));

/** Starts `tollgate VERB …` from this checkout. Every one started must be stopped or killed. */
export function startTollgate(args: readonly string[], options: RunOptions = {}): RunningProcess {
  return startNode([`${ROOT}src/main.ts`, ...args], options);
}

/** Runs `tollgate VERB …` to its end; killed after `timeoutMs` (two minutes unless given). */
export async function runTollgate(
  args: readonly string[],
  options: RunOptions = {},
): Promise<ProcessResult> {
  const running = startTollgate(args, options);
  const timer = setTimeout(() => running.child.kill("SIGKILL"), options.timeoutMs ?? 120_000);
  const finished = await running.exited;
  clearTimeout(timer);
  return finished;
}

/** Starts node itself, as the tests run on it, with any arguments. */
export function startNode(args: readonly string[], options: RunOptions = {}): RunningProcess {
  return startProgram(process.execPath, args, options);
}

/** Starts any program, with the same environment and the same ends. */
export function startProgram(
  program: string,
  args: readonly string[],
  options: RunOptions = {},
): RunningProcess {
  const child = spawn(program, args, {
    cwd: options.cwd ?? ROOT,
    env: { ...smallEnv(), ...options.env },
    stdio: "pipe",
    ...(options.uid !== undefined && { uid: options.uid, gid: options.uid }),
  });
  alive.add(child);
  child.stdin.on("error", () => {}).end(options.stdin ?? "");
  const watched = watch(child);
  return { pid: child.pid ?? 0, child, ...watched, ...enders(child, watched.exited) };
}

/**
 * A bash whose stdin is a socket, as Node's pipes are, takes itself for a shell of rsh and reads
 * `~/.bashrc`, unless `SHLVL` says that it runs in another shell.
 */
function smallEnv(): Record<string, string> {
  const { PATH = "", HOME = "", TMPDIR, NODE_COMPILE_CACHE } = process.env;
  const optional = { TMPDIR, NODE_COMPILE_CACHE };
  const given = Object.entries(optional).filter(([, value]) => (value ?? "") !== "");
  return { PATH, HOME, SHLVL: "1", ...(Object.fromEntries(given) as Record<string, string>) };
}

type Enders = Pick<RunningProcess, "stop" | "kill" | typeof Symbol.asyncDispose>;

function enders(child: ChildProcess, exited: Promise<ProcessResult>): Enders {
  const kill = () => {
    child.kill("SIGKILL");
    return exited;
  };
  return {
    kill,
    stop: async (withinMs = 60_000) => {
      child.kill("SIGTERM");
      const timer = setTimeout(() => child.kill("SIGKILL"), withinMs);
      const finished = await exited;
      clearTimeout(timer);
      return finished;
    },
    [Symbol.asyncDispose]: async () => {
      await kill();
    },
  };
}

type Watched = Omit<RunningProcess, "pid" | "child" | keyof Enders>;

function watch(child: ChildProcess): Watched {
  let stdout = "";
  let stderr = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  const exited = new Promise<ProcessResult>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      alive.delete(child);
      resolve({ code, signal, stdout, stderr });
    });
  });
  const found: Record<string, unknown>[] = [];
  let readUntil = 0;
  // Claims are tried again and again: each line is parsed once, when it is whole.
  const lines = () => {
    const end = stdout.lastIndexOf("\n") + 1;
    for (const line of jsonLines(stdout.slice(readUntil, end))) found.push(line);
    readUntil = end;
    return [...found];
  };
  const soFar = () => `\n--- stdout\n${stdout}\n--- stderr\n${stderr}`;
  const look = lookerAt(exited);
  return {
    stdout: () => stdout,
    stderr: () => stderr,
    lines,
    line: (fits, withinMs = 120_000) => {
      const find = () => lines().find(fits) ?? fail(`no such line yet${soFar()}`);
      return look(find, withinMs);
    },
    says: async (text, withinMs = 120_000) => {
      const find = () => {
        const said = stdout + stderr;
        const found = typeof text === "string" ? said.includes(text) : text.test(said);
        if (!found) fail(`it has not said ${text}${soFar()}`);
      };
      await look(find, withinMs);
    },
    exited,
  };
}

/** Looks until what is looked for is found. A process that has ended says nothing more. */
function lookerAt(exited: Promise<unknown>) {
  let hasEnded = false;
  const onEnd = () => {
    hasEnded = true;
  };
  void exited.then(onEnd, onEnd);
  return async <T>(find: () => T, withinMs: number): Promise<T> => {
    const look = () => {
      const isLast = hasEnded;
      try {
        return { value: find() };
      } catch (error) {
        if (!isLast) throw error;
        return { error };
      }
    };
    const found = await eventually(look, { withinMs });
    if ("error" in found) throw found.error;
    return found.value;
  };
}

function fail(message: string): never {
  throw new Error(message);
}

function jsonLines(text: string): Record<string, unknown>[] {
  const lines: Record<string, unknown>[] = [];
  for (const line of text.split("\n")) {
    if (!line.startsWith("{")) continue;
    try {
      lines.push(JSON.parse(line) as Record<string, unknown>);
    } catch {
      // A line that only looks like JSON.
    }
  }
  return lines;
}
