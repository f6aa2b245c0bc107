/**
 * Why a command has no answer. `executed: "no"` is certain, so it may be sent again; "unknown" may
 * have been charged and never is. The message never holds the command's arguments or a password.
 */
export class StoreFailure extends Error {
  readonly code: string;
  readonly executed: "no" | "unknown";
  /** The store's now, where its refusal tells it. */
  readonly storeNowMs: number | undefined;

  constructor(code: string, message: string, executed: "no" | "unknown", storeNowMs?: number) {
    super(message);
    this.storeNowMs = storeNowMs;
    this.name = "StoreFailure";
    this.code = code;
    this.executed = executed;
  }
}

/**
 * Calls back when `ms` have passed and a full poll phase after that. Timers run before sockets are
 * read, so an answer that waits in the socket behind a stalled event loop is still found in time.
 * Clearing the timer ends it, but for the poll phase.
 */
export function setTimeoutAfterPoll(ms: number, late: () => void): NodeJS.Timeout {
  return setTimeout(() => setImmediate(() => setImmediate(late)), ms);
}

/** Rejects when there is no answer in `ms`, and then in one more poll phase. */
export function withTimeout<T>(answer: Promise<T>, ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const message = `Redis: no answer in ${ms} ms`;
    const timer = setTimeoutAfterPoll(ms, () =>
      reject(new StoreFailure("late", message, "unknown")),
    );
    answer.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
