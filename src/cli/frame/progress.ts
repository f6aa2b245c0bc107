import type { Terminal } from "../framework/terminal.ts";

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
