import cluster from "node:cluster";
import type { Config } from "../../config/config.ts";
import type { ReloadResult } from "../../config/reload.ts";
import type { DeprecatedCall } from "../../telemetry/history/deprecated-calls.ts";
import type { OpenCharge } from "../../telemetry/history/diagnostics.ts";
import type { RefusedAccount } from "../../telemetry/history/refused-accounts.ts";
import type { AccessLogEntry } from "../../telemetry/log/log.ts";
import type { ProcessStatus } from "../process/status.ts";
import type { StoreAvailabilityEvent } from "./store-availability.ts";

/**
 * Between the process that watches and one that serves. A configuration goes over whole, as it was
 * read and checked: so all serve the same one, and one that is started later never sees a newer file.
 */
export type WorkerCommand =
  | { readonly start: Config }
  | { readonly reload: Config; readonly id: number }
  | { readonly report: number }
  /** Read the key records now, then report. */
  | { readonly refreshKeys: number }
  | { readonly recall: DiagnosticsQuery; readonly id: number }
  | { readonly stop: true };

export type WorkerMessage =
  /** Listens to messages from now on. */
  | { readonly hello: true }
  | { readonly serving: Readonly<Record<string, string>> }
  /** Cannot start, in words for people. */
  | { readonly cannot: string }
  /** Goes on with what is under way, and ends: something went wrong that nothing caught. */
  | { readonly failing: string }
  | { readonly reloaded: ReloadResult; readonly id: number }
  /** The store went or came back, as this process sees it. */
  | { readonly store: StoreAvailabilityEvent }
  | { readonly recalled: DiagnosticsReply; readonly id: number }
  /** `id` is that of the question; undefined in an unsolicited message. */
  | { readonly status: ProcessStatus; readonly id?: number };

/** A question to a process about what it remembers: see Diagnostics. */
export type DiagnosticsQuery =
  | { readonly refusal: string }
  | { readonly open: true }
  | { readonly deprecated: true }
  | { readonly refused: true }
  /** Tell the store now what would be told within a minute. */
  | { readonly tellStore: true };

export type DiagnosticsReply = {
  readonly refusal?: AccessLogEntry | undefined;
  readonly open?: readonly OpenCharge[];
  readonly deprecated?: readonly DeprecatedCall[];
  readonly refused?: readonly RefusedAccount[];
};

/** The way to the process that watches over this one. */
export type SupervisorChannel = {
  /** Resolves when the message has left, or when the other process no longer listens. */
  send(message: WorkerMessage): Promise<void>;
  onMessage(listener: (message: WorkerCommand) => void): void;
  /** The process that watches is gone, however that happened. */
  onGone(listener: () => void): void;
  /** A number of its own for each process that was ever started. */
  readonly number: number;
};

/** Undefined where this process is not one of several. */
export function openChannel(): SupervisorChannel | undefined {
  const { worker } = cluster;
  if (worker === undefined) return undefined;
  return {
    send: (message) =>
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
