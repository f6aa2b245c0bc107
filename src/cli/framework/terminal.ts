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
  /** Asks whoever sits there for one line; undefined where stdin or stdout is no terminal. */
  readonly ask?: ((question: string) => Promise<string>) | undefined;
};

/** With --json stdout is one JSON value and nothing else. */
export function printJson(terminal: Terminal, value: unknown): number {
  terminal.out(`${JSON.stringify(value, null, terminal.isTty ? 2 : 0)}\n`);
  return EXIT_OK;
}
