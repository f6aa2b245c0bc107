import type { Mistake } from "../../config/file/mistake.ts";
import type { Log } from "../../telemetry/log/log.ts";

/** Writes a line for each warning about the configuration that is now in force. */
export function logWarnings(log: Log, warnings: readonly Mistake[]): void {
  for (const { message: why, ...place } of warnings) log.warn("config_warning", { ...place, why });
}
