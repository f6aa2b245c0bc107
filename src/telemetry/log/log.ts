import { type DestinationStream, pino } from "pino";
import { type AccessLogEntry, formatAccessLogEntry } from "./access-log-entry.ts";
import { type EVENTS, type EventKind, isEvent } from "./events.ts";
import { LOG_EVENTS } from "./log-events.ts";

export type LogLevel = "debug" | "info" | "warn" | "error" | "silent";

type Rows = typeof LOG_EVENTS & typeof EVENTS;
export type LogEvent = keyof Rows;
type LogLine<E extends LogEvent> = {
  readonly [K in Rows[E]["members"][number]]?: unknown;
};

/**
 * Writes one line by its row in log-events.ts, with the members that the row names. For a row of
 * events.ts it writes the line of an event and calls the listener. `timeMs` is when the event
 * happened, if that is known.
 */
type LogFn = <E extends LogEvent>(event: E, details?: LogLine<E>, timeMs?: number) => void;

/** The one logger. Callers pass facts: never a key, a token, a password or a library's object. */
export type Log = {
  readonly debug: LogFn;
  readonly info: LogFn;
  readonly warn: LogFn;
  readonly error: LogFn;
  request(entry: AccessLogEntry): void;
  setLevel(level: LogLevel): void;
  /** Sets the callback for each event, at any level. There is at most one. */
  onEvent(listener: EventListener): void;
};

/** `timeMs` is the `time` of the event's line. */
export type EventListener = (
  kind: EventKind,
  details: Readonly<Record<string, unknown>>,
  timeMs: number,
) => void;

/** Messages that name their gateway, because an audit over several logs tells gateways apart. */
const NAMED = new Set(
  Object.entries(LOG_EVENTS).flatMap(([name, { members }]) => {
    return (members as readonly string[]).includes("gateway") ? [name] : [];
  }),
);

/**
 * Writes JSON lines to `destination`; main.ts opens stdout. Events name the `gateway`, as do lines
 * whose row has it, and have their time from `now`, in Unix milliseconds.
 */
export function createLog(
  destination: DestinationStream,
  level: LogLevel,
  gateway?: string,
  now: () => number = Date.now,
): Log {
  const options = { base: null, formatters: { level: (label: string) => ({ level: label }) } };
  const logger = pino({ ...options, level }, destination);
  // The line of an event has the time that its listener is told.
  const events = pino({ ...options, level: eventsLevel(level), timestamp: false }, destination);
  let heard: EventListener = () => {};
  const tell =
    (grade: Exclude<LogLevel, "silent">): LogFn =>
    (event: LogEvent, details: Readonly<Record<string, unknown>> = {}, timeMs?: number) => {
      if (!isEvent(event)) {
        return logger[grade](NAMED.has(event) ? { gateway, ...details } : details, event as string);
      }
      const time = timeMs ?? now();
      events[grade]({ time, kind: event, gateway, ...details }, "event");
      heard(event, details, time);
    };
  return {
    debug: tell("debug"),
    info: tell("info"),
    warn: tell("warn"),
    error: tell("error"),
    request: (entry) => {
      if (logger.isLevelEnabled("info")) destination.write(formatAccessLogEntry(entry));
    },
    setLevel: (next) => {
      logger.level = next;
      events.level = eventsLevel(next);
    },
    onEvent: (listener) => {
      heard = listener;
    },
  };
}

/** Events have a line at every level but `silent`. */
function eventsLevel(level: LogLevel): LogLevel {
  return level === "silent" ? "silent" : "debug";
}

/**
 * A message of a store to the people who run it. The caller logs it. Details never contain secrets.
 */
export type Reporter = <E extends LogEvent>(
  level: "debug" | "info" | "warn" | "error",
  event: E,
  details?: LogLine<E>,
) => void;
