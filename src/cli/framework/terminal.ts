import { EXIT_OK, type ProcessContext } from "../../server/process/process-context.ts";

/**
 * The parts of the world outside that a verb may touch: main.ts makes it from `process`, tests may
 * make their own.
 */
export type Terminal = ProcessContext & {
  /** Whether stdout is a terminal, where style helps. */
  readonly isTty: boolean;
  /** Whether stderr is one, where progress is shown. */
  readonly isErrTty?: boolean;
  /** Unix milliseconds. */
  now(): number;
  out(text: string): void;
  /** All of stdin: secrets are given there, where no list of processes and no history shows them. */
  readIn(): Promise<string>;
  /** Asks for one line at the terminal; undefined if stdin or stdout is no terminal. */
  readonly ask?: ((question: string) => Promise<string>) | undefined;
};

/** With --json stdout is one JSON value and nothing else. */
export function printJson(terminal: Terminal, value: unknown): number {
  terminal.out(`${JSON.stringify(value, null, terminal.isTty ? 2 : 0)}\n`);
  return EXIT_OK;
}

const SILENT_MS = 1_000;
const BETWEEN_MS = 200;

/** How far a long reading has come, on one line that goes away at the end. */
export type Progress = { readonly tell: (done: number, all: number) => void; end(): void };

/** Says nothing for the first second, and nothing where stderr is no terminal. */
export function openProgress(terminal: Terminal, what: string): Progress {
  const { isErrTty = false } = terminal;
  let nextMs = terminal.now() + SILENT_MS;
  let shown = false;
  return {
    tell: (done, all) => {
      if (!isErrTty || terminal.now() < nextMs) return;
      nextMs = terminal.now() + BETWEEN_MS;
      shown = true;
      terminal.err(`\r${what}: ${Math.floor((100 * done) / Math.max(1, all))} %\x1b[K`);
    },
    end: () => {
      if (shown) terminal.err("\r\x1b[K");
    },
  };
}
