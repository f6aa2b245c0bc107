import cluster from "node:cluster";
import type { FromWorker, ToWorker } from "../server/workers/messages.ts";

/** The way to the process that watches over this one. */
export type Channel = {
  /** Resolves when it has left, or cannot: nobody listens any more. */
  tell(message: FromWorker): Promise<void>;
  onMessage(listener: (message: ToWorker) => void): void;
  /** The process that watches is gone, however that happened. */
  onGone(listener: () => void): void;
  /** A number of its own for each process that was ever started. */
  readonly number: number;
};

/** Undefined where this process is not one of several. */
export function openChannel(): Channel | undefined {
  const { worker } = cluster;
  if (worker === undefined) return undefined;
  return {
    tell: (message) =>
      new Promise((resolve) => {
        if (!worker.isConnected()) return resolve();
        worker.send(message, undefined, undefined, () => resolve());
      }),
    onMessage: (listener) => {
      worker.on("message", listener);
    },
    onGone: (listener) => {
      worker.once("disconnect", () => {
        // Node ends a process whose parent is gone, unless it seems to be meant: here it drains.
        worker.exitedAfterDisconnect = true;
        listener();
      });
    },
    number: worker.id,
  };
}
