import cluster from "node:cluster";
import type { Config } from "../../config/config.ts";
import type { ReloadResult } from "../../config/reload-result.ts";
import type { AdminEvent } from "../../stores/quotas/admin-changes.ts";
import type { OpenCharge } from "../../telemetry/history/diagnostics.ts";
import type { RefusedAccount } from "../../telemetry/history/refused-accounts.ts";
import type { AccessLogEntry } from "../../telemetry/log/access-log-entry.ts";
import type { TakenOver } from "../process/served-gateway.ts";
import type { ProcessStatus } from "../process/status.ts";
import type { StoreAvailabilityEvent } from "./store-availability.ts";

/**
 * Messages between the supervisor and a worker. A configuration is sent whole, as it was read and
 * checked. So all workers serve the same one, and one that starts later never sees a newer file.
 */
export type WorkerCommand =
  | { readonly start: WorkerStart }
  | { readonly reload: Config; readonly id: number }
  | { readonly report: number }
  /** Read the key records now, then send a status. */
  | { readonly refreshKeys: number }
  /** The supervisor has changed an account, and tells the other gateways by itself. */
  | { readonly changed: AdminEvent }
  | { readonly recall: DiagnosticsQuery; readonly id: number }
  /** Drain and end; `atOnce` cuts requests in progress, and a drain that has begun. */
  | { readonly stop: true; readonly atOnce?: boolean };

/**
 * All that a worker starts with. It is in force, whatever the files and the store have by then
 * (docs/decisions/workers.md).
 */
export type WorkerStart = TakenOver & {
  readonly config: Config;
  /** The name of the gateway, which events and metrics of all its processes have. */
  readonly gateway: string;
};

export type WorkerMessage =
  /** The worker listens to messages from now on. */
  | { readonly hello: true }
  | { readonly serving: Readonly<Record<string, string>> }
  /** The worker cannot start; the message is for people. */
  | { readonly cannot: string }
  /**
   * The worker finishes requests in progress and then ends, because of an error that nothing
   * caught.
   */
  | { readonly failing: string }
  | { readonly reloaded: ReloadResult; readonly id: number }
  /** The store became unreachable or came back, as this worker sees it. */
  | { readonly store: StoreAvailabilityEvent }
  | { readonly recalled: DiagnosticsReply; readonly id: number }
  /** `id` is that of the request; undefined in an unsolicited message. */
  | { readonly status: ProcessStatus; readonly id?: number };

/** A query about what a process remembers: see Diagnostics. */
export type DiagnosticsQuery =
  | { readonly refusal: string }
  | { readonly open: true }
  | { readonly refused: true }
  /** Flush to the store now what would be sent within 30 s. */
  | { readonly tellStore: true };

export type DiagnosticsReply = {
  readonly refusal?: AccessLogEntry | undefined;
  readonly open?: readonly OpenCharge[];
  readonly refused?: readonly RefusedAccount[];
};

/** The channel to the supervisor of this process. */
export type SupervisorChannel = {
  /** Resolves when the message was sent, or when the other process no longer listens. */
  send(message: WorkerMessage): Promise<void>;
  onMessage(listener: (message: WorkerCommand) => void): void;
  /** The listener is called when the supervisor is gone, for whatever reason. */
  onGone(listener: () => void): void;
  /** A number that no other process of this gateway has or had. */
  readonly number: number;
};

/** Undefined if this process is not one of several. */
export function openChannel(): SupervisorChannel | undefined {
  const { worker } = cluster;
  if (worker === undefined) return undefined;
  return {
    send: (message) =>
      new Promise((resolve) => {
        worker.send(message, undefined, undefined, () => resolve());
      }),
    onMessage: (listener) => {
      worker.on("message", listener);
    },
    onGone: (listener) => {
      worker.once("disconnect", () => {
        // Node ends a process whose parent is gone, unless this is set. Here the process drains
        // instead.
        worker.exitedAfterDisconnect = true;
        listener();
      });
    },
    number: worker.id,
  };
}
