import type { LoadResult } from "../../config/config.ts";
import type { ReloadResult } from "../../config/reload.ts";
import type { Log } from "../../telemetry/log/log.ts";

export type StartOptions = {
  readonly log: Log;
  /** Reads the configuration again, for a reload. */
  readonly load: () => Promise<LoadResult>;
  /** Unix milliseconds; tests pass their own. */
  readonly now?: () => number;
  /** Log lines thrown away so far, for the metrics. */
  readonly logDropped?: () => number;
  /** Why log lines are thrown away at present, for /readyz. */
  readonly logTrouble?: () => string | undefined;
  /** Takes whole lines that other processes of this gateway have logged. */
  readonly relay?: (lines: string) => void;
  /** Another process of this gateway tells what is the same for all of them: reloads, backends. */
  readonly supervised?: boolean;
  /** The number of this process, where it is one of several. */
  readonly worker?: number;
};

/** A running gateway. `urls` has one entry for each environment, by name. */
export type GatewayHandle = {
  readonly urls: Readonly<Record<string, string>>;
  readonly adminUrl: string | undefined;
  /** Puts a new configuration in force whole, or keeps the old one and says every mistake. */
  reload(): Promise<ReloadResult>;
  /**
   * Drains and closes (docs/reference/edge.md#drain); `atOnce` cuts a drain short, or does without
   * one.
   */
  stop(how?: { readonly atOnce: boolean }): Promise<void>;
};
