import type { Refusal } from "../../core/refusal.ts";

/**
 * The thing that the gateway waits for. Each wait has a limit of its own
 * (docs/reference/edge.md#timeouts). `reader`: for the client to take what has come for it.
 */
export type WaitKind =
  | "nothing"
  | "connection"
  | "upload"
  | "answer"
  | "download"
  | "reader"
  | "tunnel";

export type ForwardHandler = {
  /** The present wait took longer than its limit. */
  late(): void;
  /**
   * The client's bytes turned out to be wrong after the request was forwarded. Nothing after the
   * head of an upgrade is read as a request, so nothing of that can.
   */
  broken?(refusal: Refusal): void;
  /** The client is gone. */
  gone(): void;
  /** The client takes more again. */
  drained(): void;
  /** Called ten times a second, before the wait is measured: for changes that no event tells. */
  onTick?(nowMs: number): void;
};
