import type { Log } from "../../telemetry/log/log.ts";

/** The parts of the outside world that a service may use while it runs. */
export type ProcessContext = {
  readonly env: Readonly<Record<string, string | undefined>>;
  err(text: string): void;
  readonly process: ProcessControl;
};

/** The process itself: its signals, its end, and the process that started it. */
export type ProcessControl = {
  /** The command that runs this program again: node and main.ts. */
  readonly self: readonly [string, ...string[]];
  /** The version of V8, such as "14.6.202". */
  readonly v8: string;
  /** Whether npm runs this process. npm passes signals on, and its shell may die of them first. */
  readonly underNpm: boolean;
  /** The listener is called for each SIGTERM and SIGINT, and under npm when the parent is gone. */
  onEnd(listener: (cause: ShutdownCause) => void): void;
  onHangUp(listener: () => void): void;
  /** Ends this process by the signal when its verb has ended and its output is written. */
  endBy(signal: ShutdownSignal): void;
  /**
   * From the first call on, a signal that would end this process waits until its output is written.
   * A second one ends it at once. Returns whether a signal waits.
   */
  holdEnd(): boolean;
  /**
   * Waits until the output is written. Resolves to whether a signal waits; if none does, one ends
   * this process at once again, unless it has yet to say that its output is lost.
   */
  releaseEnd(): Promise<boolean>;
  /**
   * The listener is called for errors that nothing caught. After this call such an error does not
   * end the process.
   */
  onCrash(listener: (error: unknown) => void): void;
  /** Ends now. */
  exit(status: number): never;
  /** Ends the process with SIGKILL, if even `exit` could hang. */
  kill(): void;
  /** The process that started this one with an IPC channel, if any: see demo.ts. */
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

/** Writes on stderr what went wrong, and returns the exit status. */
export function fail(
  context: Pick<ProcessContext, "err">,
  status: number,
  message: string,
): number {
  context.err(`${message}\n`);
  return status;
}

/**
 * The time that a second signal leaves: enough to write the lines and to save the charges of
 * aborted requests.
 */
export const STOP_AT_ONCE_MS = 500;

/** Requests in progress have this time after an error that nothing caught. */
export const CRASH_DRAIN_MS = 5_000;
/** Time after the drain's deadline for aborted requests to end, with their lines and charges. */
export const CUT_MS = 1_700;

/** Logs an error that nothing caught, and returns its message. */
export function logCrash(log: Pick<Log, "error"> | undefined, error: unknown): string {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  log?.error("unexpected_failure", { name, why: message, stack });
  return message;
}

type ShutdownSignal = "SIGTERM" | "SIGINT";

/** The cause of a shutdown: a signal, or the end of the parent that would have passed one on. */
export type ShutdownCause = ShutdownSignal | "parent gone";

/** A gateway reloads by a SIGHUP. It ends a command, as the terminal is closed. */
type EndCause = ShutdownCause | "SIGHUP";

/**
 * The response to a cause: begin a drain, cut it short, or nothing, because it repeats the first
 * one.
 */
type ShutdownAction = "drain" | "end" | "same";

/** Within this time the same signal is a duplicate, by way of the terminal and the parent. */
const REPEAT_MS = 100;
/** npm passes on a signal that the terminal has sent to the whole group already, sometimes late. */
const REPEAT_UNDER_NPM_MS = 500;

/**
 * Distinguishes a second signal, which ends a process at once, from a duplicate of the first
 * (docs/reference/edge.md#drain). The end of the parent never counts as a second signal, because
 * the shell between npm and this process dies of the same signal.
 */
export class ShutdownSignals {
  readonly #repeatMs: number;
  #first: { readonly cause: EndCause; readonly atMs: number } | undefined;

  constructor(underNpm: boolean) {
    this.#repeatMs = underNpm ? REPEAT_UNDER_NPM_MS : REPEAT_MS;
  }

  /** `nowMs` is the time of a monotonic clock, in milliseconds. */
  judge(cause: EndCause, nowMs: number): ShutdownAction {
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
