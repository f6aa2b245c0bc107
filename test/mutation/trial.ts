import { type ChildProcess, fork, spawn } from "node:child_process";
import { once } from "node:events";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { COMPILED } from "../support/compiled-code.ts";
import { type Range, ranIn } from "./reach.ts";

/** To trial-host.ts: run this test file, and leave in the folder `coverage` what ran. */
export type Ask = { readonly test: string; readonly coverage?: string };
/** Back. */
export type Answer = { readonly isGood: boolean };

export type Outcome = "passed" | "failed" | "late";

/**
 * How a test file is run. Node's own runner begins at once; vitest takes a second, and runs what asks for
 * more than Node has.
 */
export type Runner = "node" | "vitest";

export type TestRun = {
  readonly test: string;
  readonly runner: Runner;
  /** The file has not ended in time after this. */
  readonly deadlineMs: number;
};

/** The copy goes without these. */
const LEFT_OUT = ["node_modules", ".git", "reports", "coverage", "dist"];

/** A copy of the repository in which one file at a time is changed, and tests are run. */
export class Trial implements AsyncDisposable {
  readonly #folder = realpathSync(mkdtempSync(join(tmpdir(), "tollgate-mutants-")));
  #host: ChildProcess | undefined;

  constructor() {
    for (const name of readdirSync(".")) {
      if (LEFT_OUT.includes(name)) continue;
      cpSync(name, join(this.#folder, name), { recursive: true });
    }
    symlinkSync(resolve("node_modules"), join(this.#folder, "node_modules"));
  }

  /** Calls `run` with `text` as the content of `file`, and puts the file back. */
  async changed<T>(file: string, text: string, run: () => Promise<T>): Promise<T> {
    const place = join(this.#folder, file);
    const before = readFileSync(place);
    writeFileSync(place, text);
    try {
      return await run();
    } finally {
      writeFileSync(place, before);
    }
  }

  /** Runs one test file. */
  async run({ test, runner, deadlineMs }: TestRun, coverage?: string): Promise<Outcome> {
    const stop = new AbortController();
    const late = sleep(deadlineMs, "late" as const, { signal: stop.signal });
    late.catch(() => undefined);
    if (runner === "vitest") this.#host ??= this.#start();
    const host = runner === "vitest" ? this.#host : undefined;
    const child = host ?? this.#plain(test, coverage);
    const ended =
      host === undefined ? exited(child) : asked(host, { test, ...(coverage && { coverage }) });
    const outcome = await Promise.race([ended, late]);
    stop.abort();
    const isOver = child.exitCode !== null || child.signalCode !== null;
    if (outcome === "late" || host === undefined || isOver) {
      await end(child);
      if (child === this.#host) this.#host = undefined;
    }
    return outcome;
  }

  /**
   * Runs one test file on the sources as they are. Gives what ran of which file, in its own process and
   * in those that it started; undefined where the test does not pass.
   */
  async learn(run: TestRun): Promise<Map<string, Range[]> | undefined> {
    const coverage = join(this.#folder, "reports/reach");
    mkdirSync(coverage, { recursive: true });
    try {
      const outcome = await this.run(run, coverage);
      return outcome === "passed" ? ranIn(coverage, this.#folder) : undefined;
    } finally {
      rmSync(coverage, { recursive: true, force: true });
    }
  }

  #plain(test: string, coverage?: string): ChildProcess {
    const hooks = join(this.#folder, "test/mutation/plain-hooks.ts");
    const env = { ...process.env, NODE_COMPILE_CACHE: COMPILED };
    return spawn(process.execPath, ["--test-force-exit", "--import", hooks, test], {
      cwd: this.#folder,
      env: coverage === undefined ? env : { ...env, NODE_V8_COVERAGE: coverage },
      // A group of its own: what a test leaves behind ends with it.
      detached: true,
      stdio: "ignore",
    });
  }

  #start(): ChildProcess {
    return fork(join(this.#folder, "test/mutation/trial-host.ts"), {
      cwd: this.#folder,
      detached: true,
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#host !== undefined) await end(this.#host);
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function exited(process: ChildProcess): Promise<Outcome> {
  const [code] = (await once(process, "exit")) as [number | null];
  return code === 0 ? "passed" : "failed";
}

/** A mutant that ends the host itself was noticed. */
async function asked(host: ChildProcess, ask: Ask): Promise<Outcome> {
  const stop = new AbortController();
  const answered = once(host, "message", { signal: stop.signal }) as Promise<[Answer]>;
  const gone = once(host, "exit", { signal: stop.signal }).then(() => [{ isGood: false }] as const);
  for (const one of [answered, gone]) one.catch(() => undefined);
  host.send(ask);
  const [{ isGood }] = await Promise.race([answered, gone]);
  stop.abort();
  return isGood ? "passed" : "failed";
}

/** Ends a process and all others of its group. */
async function end(child: ChildProcess): Promise<void> {
  const isGone = child.exitCode !== null || child.signalCode !== null;
  const gone = isGone ? undefined : once(child, "exit");
  if (child.pid !== undefined) {
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // All of them have ended.
    }
  }
  await gone;
}
