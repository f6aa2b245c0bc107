import { formatCount } from "../../base/messages.ts";
import type { LogListener } from "../../telemetry/log/read-log.ts";
import { openProgress, type Terminal } from "../framework/terminal.ts";

/** Reads logs and shows the progress. Returns in words which lines could not be read, or "". */
export async function readLogsShown(
  files: readonly string[],
  terminal: Terminal,
  listener: Omit<LogListener, "progress">,
): Promise<string[]> {
  const { readLogs } = await import("../../telemetry/log/read-log.ts");
  const progress = openProgress(terminal);
  const read = readLogs(files, { ...listener, progress: progress.tell });
  const { damaged, firstDamage } = await read.finally(progress.end);
  if (damaged === 0) return [];
  return [`${formatCount(damaged, "damaged line")} left out, the first at ${firstDamage}`];
}
