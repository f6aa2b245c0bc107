import type { ShutdownCause } from "./end-signals.ts";

/** The parts of the world outside that a service may touch while it runs. */
export type ProcessContext = {
  readonly env: Readonly<Record<string, string | undefined>>;
  err(text: string): void;
  readonly process: ProcessControl;
};

/** The process itself, for the verbs that stay: start, pets, demo. */
export type ProcessControl = {
  /** The command that runs this program again: node and main.ts. */
  readonly self: readonly [string, ...string[]];
  /** Whether npm runs this process: it passes signals on, and its shell may die of them first. */
  readonly underNpm: boolean;
  /** Hears of SIGTERM and SIGINT, and under npm of a parent that is gone; every time. */
  onEnd(listener: (cause: ShutdownCause) => void): void;
  onHangUp(listener: () => void): void;
  /** Hears of what nothing caught; from then on the process does not end by itself. */
  onCrash(listener: (error: unknown) => void): void;
  /** Ends now. */
  exit(status: number): never;
  /** Ends now where even `exit` could hang: SIGKILL. */
  kill(): void;
  /** The process that started this one with a channel, if any: see demo.ts. */
  readonly parent: Parent | undefined;
};

export type Parent = {
  tell(message: PetsMessage): void;
  onGone(listener: () => void): void;
};

/** A message of the sample backend to the demo that started it. */
export type PetsMessage = { readonly listening: string } | { readonly failed: string };

/**
 * Exit statuses (docs/reference/commands.md#exit-statuses); 64 and 78 are EX_USAGE and EX_CONFIG of
 * sysexits.h.
 */
export const EXIT_OK = 0;
export const EXIT_FAILURE = 1;
export const EXIT_USAGE = 64;
export const EXIT_CONFIG = 78;

/** Says on stderr what went wrong, in words, and gives the status to end with. */
export function fail(
  surroundings: Pick<ProcessContext, "err">,
  status: number,
  message: string,
): number {
  surroundings.err(`${message}\n`);
  return status;
}
