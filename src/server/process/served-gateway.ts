import type { LoadResult } from "../../config/config.ts";
import type { ReloadResult } from "../../config/reload-result.ts";
import type { Records } from "../../core/keys/records.ts";
import type { Log } from "../../telemetry/log/log.ts";
import type { GatewayHandle } from "./gateway-handle.ts";
import type { Gauges } from "./status.ts";

/** The state that a process takes over at its start from those that serve already. */
export type TakenOver = {
  /** The records in force, if they can no longer be read. */
  readonly records?: Records | undefined;
  /** The upstreams as the other processes know them. */
  readonly upstreams?: Gauges["upstreams"];
};

export type StartOptions = {
  readonly log: Log;
  /** Reads the configuration for a reload. */
  readonly load: () => Promise<LoadResult>;
  /** Unix milliseconds; tests pass their own. */
  readonly now?: () => number;
  /** The number of log lines dropped so far, for the metrics. */
  readonly logDropped?: () => number;
  /** Why log lines are dropped at present, for /readyz. */
  readonly logTrouble?: () => string | undefined;
  /** Called with whole lines that other processes of this gateway have logged. */
  readonly relay?: (lines: string) => void;
  /**
   * The number of this process, if it is one of several. Their supervisor then logs the events that
   * are the same for all: reloads, backends.
   */
  readonly worker?: number;
  /** The name of the gateway, which all of its processes have. */
  readonly gateway: string;
  readonly takenOver?: TakenOver;
};

/** A gateway as the process sees it that ends with it. */
export type ServedGateway = GatewayHandle & {
  /** `isRetry`: nobody asked, because a file could not be read before. That it still cannot is not logged. */
  reload(isRetry?: boolean): Promise<ReloadResult>;
  /** Logs the units that it owes to the store as lost, because the process ends without charging them. */
  dropOwed(): void;
};
