import { run } from "node:test";
import { inspect } from "node:util";

export type Failure = {
  readonly name: string;
  readonly line: number | undefined;
  readonly why: string;
};

/** What came of one file. `failures` holds each failed test and, named by the file, a crash. */
export type FileResult = {
  readonly file: string;
  readonly passed: number;
  readonly skipped: number;
  readonly failures: readonly Failure[];
  readonly durationMs: number;
  /** What its tests said with `t.diagnostic()`: the figures. */
  readonly figures: readonly string[];
  readonly times: readonly { readonly name: string; readonly durationMs: number }[];
  /** Its stdout and stderr: worth showing when something failed. */
  readonly output: string;
};

export type Deadlines = {
  /** For a test that sets no `timeout` of its own. */
  readonly testMs: number;
  /** For the file: after it the process is killed, and the file has failed. */
  readonly fileMs: number;
  readonly namePattern?: string;
};

/** Runs one test file in a process of its own; `file` is absolute. Never rejects. */
export function runTestFile(
  file: string,
  { testMs, fileMs, namePattern }: Deadlines,
): Promise<FileResult> {
  const startMs = performance.now();
  const tally = new Tally(file);
  const stream = run({
    files: [file],
    isolation: "process",
    timeout: testMs,
    signal: AbortSignal.timeout(fileMs),
    ...(namePattern !== undefined && { testNamePatterns: namePattern }),
  });
  stream.on("test:pass", (event) => tally.pass(event));
  stream.on("test:fail", (event) => tally.fail(event));
  stream.on("test:diagnostic", (event) => tally.diagnostic(event));
  stream.on("test:stdout", ({ message }) => tally.print(message));
  stream.on("test:stderr", ({ message }) => tally.print(message));
  return new Promise((resolve) => {
    stream.once("end", () => resolve(tally.result(performance.now() - startMs, namePattern)));
    stream.resume();
  });
}

type Passed = {
  readonly name: string;
  readonly skip?: string | boolean;
  readonly todo?: string | boolean;
  readonly details: { readonly duration_ms: number; readonly type?: string };
};
type Failed = Passed & { readonly line?: number; readonly details: { readonly error: Error } };
type Said = { readonly message: string; readonly line?: number; readonly column?: number };

const OUTPUT_LENGTH_MAX = 20_000;

class Tally {
  readonly file: string;
  readonly failures: Failure[] = [];
  readonly figures: string[] = [];
  readonly times: { name: string; durationMs: number }[] = [];
  passed = 0;
  skipped = 0;
  last = "";
  output = "";

  constructor(file: string) {
    this.file = file;
  }

  /** A suite is no test. A pass in the name of the file means that it held none. */
  pass({ name, skip, todo, details }: Passed): void {
    if (details.type === "suite" || name === this.file) return;
    this.last = name;
    this.times.push({ name, durationMs: details.duration_ms });
    if (skip || todo) this.skipped += 1;
    else this.passed += 1;
  }

  /** A suite fails by its tests or by a hook of its own, and only the hook is news. */
  fail({ name, line, details }: Failed): void {
    this.last = name;
    const error = details.error as Error & { failureType?: string };
    if (error.failureType === "subtestsFailed") return;
    if (name === this.file) this.crash(error);
    else this.failures.push({ name, line, why: explain(error) });
  }

  /** With failed tests the process fails too: that by itself is no news. */
  crash(error: Error & { failureType?: string; exitCode?: number | null; signal?: string | null }) {
    const { failureType, exitCode, signal } = error;
    if (failureType === "testAborted") {
      this.failures.push({ name: "the file", line: undefined, why: "killed: over its deadline" });
    } else if (this.failures.length === 0) {
      const how = signal ? `by ${signal}` : `with exit code ${exitCode}`;
      this.failures.push({ name: "the file", line: undefined, why: `its process ended ${how}` });
    }
  }

  /** The runner's own notes, of errors outside any test, stand at line 1, column 1 of the file. */
  diagnostic({ message, line, column }: Said): void {
    if (line === undefined) return;
    if (line === 1 && column === 1) this.print(`${message}\n`);
    else this.figures.push(`${this.last}: ${message}`);
  }

  print(text: string): void {
    if (this.output.length < OUTPUT_LENGTH_MAX) this.output += text;
  }

  result(durationMs: number, namePattern: string | undefined): FileResult {
    const { file, passed, skipped, figures, times, output } = this;
    const failures = [...this.failures];
    const empty = passed + skipped + failures.length === 0;
    if (empty && namePattern === undefined) {
      failures.push({ name: "the file", line: undefined, why: "there is no test in it" });
    }
    return { file, passed, skipped, failures, durationMs, figures, times, output };
  }
}

/** The error that the test threw, with its difference and its stack, without the runner's wrapping. */
function explain(error: Error): string {
  const { cause } = error;
  if (cause instanceof Error) return inspect(cause, { depth: 4, breakLength: 100 });
  return cause === undefined ? error.message : String(cause);
}
