import type { Log, LogEvent } from "../../telemetry/log/log.ts";
import type { SupervisorChannel } from "./messages.ts";

/**
 * The supervisor watches the same records, and logs these for all. Not what is damaged: a worker that
 * has just started reads all records, and the supervisor only those that change.
 */
const OF_RECORDS: readonly LogEvent[] = [
  ...(["keys_lost", "keys_found", "keys_unreadable", "keys_readable"] as const),
  "keys_older",
];

/**
 * Adds the number of the process to its log messages, except to request lines. The supervisor logs
 * once for the whole gateway that the store is unreachable or back.
 */
export function workerLog(
  log: Log,
  { number: worker, send: tell }: Pick<SupervisorChannel, "number" | "send">,
): Log {
  const isForAll = (kind: LogEvent, details: Readonly<Record<string, unknown>> = {}) => {
    if (OF_RECORDS.includes(kind)) return true;
    if (kind !== "store_away" && kind !== "store_back") return false;
    void tell({ store: { kind, details } });
    return true;
  };
  const atLevel = (level: "debug" | "info" | "warn" | "error"): Log["info"] => {
    return (event, details) => {
      if (!isForAll(event, details)) log[level](event, { ...details, worker } as typeof details);
    };
  };
  return {
    debug: atLevel("debug"),
    info: atLevel("info"),
    warn: atLevel("warn"),
    error: atLevel("error"),
    request: (entry) => log.request(entry),
    setLevel: (level) => log.setLevel(level),
    onEvent: (listener) => log.onEvent(listener),
  };
}
