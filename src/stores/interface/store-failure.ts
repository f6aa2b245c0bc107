/**
 * Why a command has no answer. `executed: "no"` is certain, so it may be sent again; "unknown" may
 * have been charged and never is. The message never holds the command's arguments or a password.
 */
export class StoreFailure extends Error {
  readonly code: string;
  readonly executed: "no" | "unknown";

  constructor(code: string, message: string, executed: "no" | "unknown") {
    super(message);
    this.name = "StoreFailure";
    this.code = code;
    this.executed = executed;
  }
}

/**
 * Rejects when `ms` have passed and a full poll phase after that brought no answer. Timers run
 * before sockets are read, so an answer that waits in the socket behind a stalled event loop is
 * still found in time.
 */
export function orLate<T>(answer: Promise<T>, ms: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = () => reject(new StoreFailure("late", `Redis: no answer in ${ms} ms`, "unknown"));
    const timer = setTimeout(() => setImmediate(() => setImmediate(late)), ms);
    answer.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
