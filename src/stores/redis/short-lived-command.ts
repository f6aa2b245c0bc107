import { Command } from "ioredis";

/** A command of ioredis, with what its types keep to itself. */
type OpenCommand = Pick<Command, keyof Command> & {
  initPromise(): void;
  _convertValue(resolve: (value: unknown) => void): (value: unknown) => unknown;
  _clearTimers(): void;
};
type CommandOptions = { readonly replyEncoding: "utf8" };
const Open = Command as unknown as new (
  name: string,
  args: (string | number)[],
  options: CommandOptions,
) => OpenCommand;

/**
 * A command that the next collection of the young generation frees, with its arguments and its
 * reply. V8 allocates a function in the old space if it is written where it is assigned to a
 * property, `this.reject = (error) => …`, as in the command of ioredis. There it keeps all that it
 * can reach until the next full collection: 700 bytes of each command, copied twice by collections
 * that took 3 ms (docs/decisions/hot-path.md).
 */
export class ShortLivedCommand extends Open {
  /** Called by the constructor. Does what ioredis does for a command without a callback. */
  override initPromise(): void {
    this.isResolved = false;
    this.isSettled = false;
    this.promise = new Promise((resolve, reject) => {
      this.stringifyArguments();
      const onError = (error: Error) => {
        this._clearTimers();
        this.isSettled = true;
        reject(error);
      };
      this.resolve = this._convertValue(resolve);
      this.reject = onError;
    });
  }

  /** Rejects with what `failure` makes of the reply that may still come. */
  failBeforeReply(failure: (later: Promise<unknown>) => Error): void {
    const { reject } = this;
    const later = new Promise((resolve, rejectLater) => {
      this.resolve = this._convertValue(resolve);
      this.reject = rejectLater;
    });
    reject(failure(later));
  }
}
