import { EXIT_OK, type ProcessContext } from "../../server/process/process-context.ts";

/** The outside world of a verb. main.ts makes it from `process`; tests make their own. */
export type Terminal = ProcessContext & {
  /** Whether stdout is a terminal, which can show style. */
  readonly isTty: boolean;
  /** Whether stderr is a terminal, which can show progress. */
  readonly isErrTty?: boolean;
  /** Unix milliseconds. */
  now(): number;
  /** Writes to stdout. If the text cannot be written, `ifLost` says on stderr what is lost with it. */
  out(text: string, ifLost?: string): void;
  /** Reads all of stdin, which no list of processes and no shell history shows. */
  readIn(): Promise<Buffer>;
  /** Asks for one line on stderr; undefined if stdin or stderr is not a terminal. */
  readonly ask?: ((question: string) => Promise<string>) | undefined;
  /** The same for a secret, which the terminal does not show; undefined if stdin is not a terminal. */
  readonly askHidden?: ((question: string) => Promise<string>) | undefined;
};

/** With --json, stdout is one JSON value and nothing else. */
export function printJson(terminal: Terminal, value: unknown, ifLost?: string): number {
  terminal.out(`${JSON.stringify(value, null, terminal.isTty ? 2 : 0)}\n`, ifLost);
  return EXIT_OK;
}

const SILENT_MS = 1_000;
const BETWEEN_MS = 200;

/** Shows the progress of a long read, on one line that disappears at the end. */
export type Progress = { readonly tell: (done: number, all: number) => void; end(): void };

/** Prints nothing in the first second, and nothing at all if stderr is not a terminal. */
export function openProgress(terminal: Terminal): Progress {
  const { isErrTty = false } = terminal;
  let nextMs = terminal.now() + SILENT_MS;
  let shown = false;
  return {
    tell: (done, all) => {
      if (!isErrTty || terminal.now() < nextMs) return;
      nextMs = terminal.now() + BETWEEN_MS;
      shown = true;
      terminal.err(`\rReading: ${Math.floor((100 * done) / Math.max(1, all))} %\x1b[K`);
    },
    end: () => {
      if (shown) terminal.err("\r\x1b[K");
    },
  };
}

/** The work that every verb begins with that uses the records. */
export const READING_KEYS = "Reading the keys";

/** The work of a verb whose gateway may be slow to answer. */
export const WAITING_FOR_GATEWAY = "Waiting for the gateway";

/** The work of a verb that asks the store itself. */
export const WAITING_FOR_STORE = "Waiting for the store";

/**
 * Waits for `work` and shows after each second how long it has taken, on one line that disappears at
 * the end. Prints nothing if stderr is not a terminal.
 */
export async function showWait<T>(terminal: Terminal, what: string, work: Promise<T>): Promise<T> {
  if (terminal.isErrTty !== true) return work;
  let seconds = 0;
  const timer = setInterval(() => {
    seconds += 1;
    terminal.err(`\r${what}: ${seconds} s\x1b[K`);
  }, SILENT_MS);
  try {
    return await work;
  } finally {
    clearInterval(timer);
    if (seconds > 0) terminal.err("\r\x1b[K");
  }
}
