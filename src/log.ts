import { type DestinationStream, pino } from "pino";

/** One line per request, contract 4. Absent members are unknown: no key was accepted, no route found. */
export type RequestLine = {
  readonly id: string;
  readonly env: string | undefined;
  readonly account: string | undefined;
  readonly key: string | undefined;
  readonly plan: string | undefined;
  readonly method: string;
  readonly route: string | undefined;
  readonly path: string;
  readonly status: number;
  readonly code: string | undefined;
  readonly source: "gateway" | "backend";
  readonly decision: "admitted" | "refused" | "none";
  readonly charged: 0 | 1;
  readonly forwards: 0 | 1 | 2;
  readonly durationMs: number;
  /** Why, for people: never shown to the client. */
  readonly why: string | undefined;
};

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

/** The one logger. Details never hold a key, a token or a password: callers pass facts, not objects of libraries. */
export type Log = {
  debug(message: string, details?: Record<string, unknown>): void;
  info(message: string, details?: Record<string, unknown>): void;
  warn(message: string, details?: Record<string, unknown>): void;
  error(message: string, details?: Record<string, unknown>): void;
  request(line: RequestLine): void;
  setLevel(level: LogLevel): void;
};

/** Writes JSON lines to `destination`; main.ts opens the one on stdout. */
export function createLog(destination: DestinationStream, level: LogLevel): Log {
  const logger = pino(
    { level, base: null, formatters: { level: (label) => ({ level: label }) } },
    destination,
  );
  return {
    debug: (message, details = {}) => logger.debug(details, message),
    info: (message, details = {}) => logger.info(details, message),
    warn: (message, details = {}) => logger.warn(details, message),
    error: (message, details = {}) => logger.error(details, message),
    request: (line) => logger.info(line, "request"),
    setLevel: (next) => {
      logger.level = next;
    },
  };
}
