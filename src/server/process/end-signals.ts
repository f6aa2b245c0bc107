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
