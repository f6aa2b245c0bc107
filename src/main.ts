#!/usr/bin/env node
import { readFileSync } from "node:fs";
import { constants } from "node:os";
import { isatty } from "node:tty";
import { fileURLToPath } from "node:url";
import { satisfiesEngines } from "./cli/node-version.ts";
import type { Parent, ProcessControl, ShutdownSignals } from "./server/process/process-context.ts";

// No other file has to do with the arguments, the environment, the exit and the signals of `process`.

const PARENT_POLL_MS = 250;

/** The signal that ends this process when its output is written. */
let held: HeldSignal | undefined;
/** Whether the output is written without an error, so that a signal ends this process at once. */
let released = false;
/** The signals that a gateway heeds come here until it can. */
const early: NodeJS.Signals[] = [];
const hold = (signal: NodeJS.Signals) => void early.push(signal);
const HELD = ["SIGHUP", "SIGTERM", "SIGINT"] as const;
type HeldSignal = (typeof HELD)[number];
if (["start", "demo", "worker"].includes(process.argv[2] ?? "")) {
  for (const signal of HELD) process.on(signal, hold);
}
// Node would end by the one, and let every user of the machine debug this process by the other.
for (const signal of ["SIGUSR1", "SIGUSR2"] as const) process.on(signal, () => {});

const { version, engines } = JSON.parse(
  readFileSync(new URL("../package.json", import.meta.url), "utf8"),
) as { version: string; engines: { node: string } };

if (satisfiesEngines(process.version, engines.node)) {
  process.exit(await runVerb());
} else {
  process.stderr.write(`Tollgate needs Node ${engines.node}: this is ${process.version}\n`);
  process.exitCode = 78;
}

/** The modules are imported only here, because an old Node might not even load them. */
async function runVerb(): Promise<number> {
  const { run, statusUnwritten } = await import("./cli/run.ts");
  const { ShutdownSignals } = await import("./server/process/process-context.ts");
  process.stderr.on("error", () => {});
  let written = Promise.resolve();
  let failure: Error | undefined;
  const lost: string[] = [];
  const status = await run(
    process.argv.slice(2),
    {
      env: process.env,
      isTty: isatty(1),
      isErrTty: isatty(2),
      now: Date.now,
      out: (text, ifLost) => {
        written = writeOut(text).then((error) => {
          failure ??= error;
          if (error !== undefined && ifLost !== undefined) lost.push(ifLost);
        });
      },
      err: (text) => process.stderr.write(text),
      readIn: async () => {
        const pieces: Buffer[] = [];
        for await (const piece of process.stdin) pieces.push(piece);
        return Buffer.concat(pieces);
      },
      ask: isatty(0) && isatty(2) ? (question) => askLine(question) : undefined,
      askHidden: isatty(0) ? (question) => askLine(question, true) : undefined,
      process: processControl(ShutdownSignals, () => written.then(() => failure === undefined)),
    },
    version,
  );
  await written;
  const end =
    failure === undefined
      ? status
      : statusUnwritten(failure, { status, lost, err: (text) => process.stderr.write(text) });
  return held === undefined ? end : endBy(held);
}

async function askLine(question: string, isHidden = false): Promise<string> {
  const { createInterface } = await import("node:readline/promises");
  const { Writable } = await import("node:stream");
  const input = process.stdin;
  const lines = isHidden
    ? createInterface({
        input,
        output: new Writable({ write: (_, __, done) => done() }),
        terminal: true,
      })
    : createInterface({ input, output: process.stderr });
  // While it asks, the terminal sends Ctrl-C as a character, and no signal.
  lines.on("SIGINT", () => {
    lines.close();
    process.stderr.write("\n");
    process.exit(endBy("SIGINT"));
  });
  try {
    if (isHidden) process.stderr.write(question);
    return await lines.question(question);
  } finally {
    lines.close();
    if (isHidden) process.stderr.write("\n");
  }
}

/**
 * Resolves when the text has been written, with the error if it could not be. A pipe takes it in
 * pieces, and an exit before the last piece would lose it.
 */
function writeOut(text: string): Promise<Error | undefined> {
  if (process.stdout.listenerCount("error") === 0) process.stdout.on("error", () => {});
  return new Promise((resolve) => {
    process.stdout.write(text, (error) => resolve(error ?? undefined));
  });
}

function processControl(
  Signals: typeof ShutdownSignals,
  written: () => Promise<boolean>,
): ProcessControl {
  const underNpm = process.env.npm_lifecycle_event !== undefined;
  let holding = false;
  return {
    self: [process.execPath, fileURLToPath(import.meta.url)],
    v8: process.versions.v8,
    underNpm,
    onEnd: (listener) => {
      for (const signal of ["SIGTERM", "SIGINT"] as const) {
        heed(signal, () => listener(signal));
      }
      if (underNpm) onParentGone(() => listener("parent gone"));
    },
    onHangUp: (listener) => {
      heed("SIGHUP", listener);
      if (underNpm) onNpmGone(listener);
    },
    endBy: (signal) => {
      held ??= signal;
    },
    holdEnd: () => {
      if (!holding) holdEnd(new Signals(underNpm));
      holding = true;
      return held !== undefined;
    },
    releaseEnd: async () => {
      released = await written();
      return held !== undefined;
    },
    onCrash: (listener) => {
      process.on("uncaughtException", listener);
      process.on("unhandledRejection", listener);
    },
    exit: (status) => process.exit(status),
    kill: () => {
      process.kill(process.pid, "SIGKILL");
      // Process 1 of a container is still here: it gets no signal of its own (pid_namespaces(7)).
      process.abort();
    },
    parent: process.connected ? parentChannel() : undefined,
  };
}

function holdEnd(signals: ShutdownSignals): void {
  for (const signal of HELD) {
    process.on(signal, () => {
      held ??= signal;
      const isSecond = signals.judge(signal, performance.now()) === "end";
      if (released || isSecond) process.exit(endBy(signal));
    });
  }
}

/** Ends by the signal, so that a shell sees why, or returns the status of it to process 1. */
function endBy(signal: HeldSignal): number {
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
  return 128 + constants.signals[signal];
}

/** Calls the listener at each such signal, and at once if there was one already. */
function heed(signal: HeldSignal, listener: () => void): void {
  process.on(signal, listener).off(signal, hold);
  if (early.includes(signal)) listener();
}

/**
 * Under npm the parent is a shell. It dies of the signal that npm passes to it and passes it to no
 * child, so the process that it started would run for ever.
 */
function onParentGone(listener: () => void): void {
  const parent = process.ppid;
  const timer = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(timer);
    listener();
  }, PARENT_POLL_MS).unref();
}

/**
 * npm dies of a SIGHUP and forwards none, so the end of npm is treated as one. An operator who
 * knows only npm's process id can then still reload the configuration. The shell between npm and
 * this process survives. Works on Linux only.
 */
function onNpmGone(listener: () => void): void {
  const shell = process.ppid;
  const npm = parentOf(shell);
  if (npm === undefined) return;
  const timer = setInterval(() => {
    if (parentOf(shell) === npm) return;
    clearInterval(timer);
    if (process.ppid === shell) listener();
  }, PARENT_POLL_MS).unref();
}

/** The parent of a process; undefined if the system does not report it. */
function parentOf(pid: number): string | undefined {
  try {
    // The name of the command, in parentheses, may contain any characters.
    return readFileSync(`/proc/${pid}/stat`, "latin1")
      .replace(/^.*\) /s, "")
      .split(" ")[1];
  } catch {
    return undefined;
  }
}

function parentChannel(): Parent {
  return {
    tell: (message) => {
      process.send?.(message, undefined, undefined, () => {});
    },
    onGone: (listener) => {
      process.once("disconnect", listener);
    },
  };
}
