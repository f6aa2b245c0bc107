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
  /** The version of V8, such as "14.6.202". */
  readonly v8: string;
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

export type ShutdownSignal = "SIGTERM" | "SIGINT";

/** Why a process is asked to end: a signal, or the parent that would have passed one on is gone. */
export type ShutdownCause = ShutdownSignal | "parent gone";

/** The answer to a cause: begin a drain, cut it short, or nothing, as it is the first one again. */
export type ShutdownAction = "drain" | "end" | "same";

/** The same signal again within this time is one that came on two ways: a terminal and a parent. */
const REPEAT_MS = 100;
/** npm passes a signal on after the terminal has given it to the whole group, and is slow at times. */
const REPEAT_UNDER_NPM_MS = 500;

/**
 * Tells a second signal, which ends a process at once, from the first one that arrives again
 * (docs/reference/edge.md#drain). A parent that is gone is never a second one: the shell between
 * npm and us dies of the signal that we drain for.
 */
export class ShutdownSignals {
  readonly #repeatMs: number;
  #first: { readonly cause: ShutdownCause; readonly atMs: number } | undefined;

  constructor(underNpm: boolean) {
    this.#repeatMs = underNpm ? REPEAT_UNDER_NPM_MS : REPEAT_MS;
  }

  /** `nowMs` is that of a monotonic clock, in milliseconds. */
  judge(cause: ShutdownCause, nowMs: number): ShutdownAction {
    const first = this.#first;
    if (first === undefined) {
      this.#first = { cause, atMs: nowMs };
      return "drain";
    }
    if (cause === "parent gone") return "same";
    const couldBeFirst = first.cause === cause || first.cause === "parent gone";
    return couldBeFirst && nowMs - first.atMs < this.#repeatMs ? "same" : "end";
  }
}
