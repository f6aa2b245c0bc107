import type { ReloadResult } from "../../config/reload-result.ts";

/** A running gateway. `urls` has one entry for each environment, by name. */
export type GatewayHandle = {
  readonly urls: Readonly<Record<string, string>>;
  readonly adminUrl: string | undefined;
  /**
   * Applies a new configuration as a whole, or keeps the old one and reports every mistake. It is
   * refused once the gateway has stopped.
   */
  reload(): Promise<ReloadResult>;
  /**
   * Drains and closes (docs/reference/edge.md#drain). `atOnce` cuts a current drain short, or skips
   * it.
   */
  stop(how?: { readonly atOnce: boolean }): Promise<void>;
};
