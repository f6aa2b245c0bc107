/**
 * A state of the reading side: whether bytes are parsed as HTTP, and how long the state may last.
 * After that the connection is refused with a 408, its request is broken off, or it is ended.
 */
export type Reading = {
  readonly parses: boolean;
  readonly limit?: "headersTimeoutMs" | "idleTimeoutMs" | "requestTimeoutMs" | "lingerMs";
  readonly onLate?: "refuse" | "break" | "end";
};

export const READING = {
  /** No byte has arrived. The first head has one limit, from the connection to the head's end. */
  connected: { parses: true, limit: "headersTimeoutMs", onLate: "refuse" },
  /** Between a response and the first byte of the next head. */
  idle: { parses: true, limit: "idleTimeoutMs", onLate: "end" },
  head: { parses: true, limit: "headersTimeoutMs", onLate: "refuse" },
  body: { parses: true, limit: "requestTimeoutMs", onLate: "break" },
  /** The request is complete or malformed. Bytes sent ahead wait for the response. */
  ahead: { parses: true },
  /** The last response is sent or being sent. Bytes that arrive are discarded. */
  lingering: { parses: false, limit: "lingerMs", onLate: "end" },
  /** The socket belongs to another protocol. */
  detached: { parses: false },
  closed: { parses: false },
} as const satisfies Record<string, Reading>;
