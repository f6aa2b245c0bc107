import { BanHistory } from "../../telemetry/history/ban-history.ts";

const BANS_MAX = 100_000;

/** The bans in the events of logs. */
export function loggedBans(): BanHistory {
  return new BanHistory(BANS_MAX);
}
