/** The limits of the edge (docs/reference/edge.md#timeouts): bytes, counts, milliseconds. */
export type EdgeLimits = {
  readonly headerBytes: number;
  readonly headerCount: number;
  readonly urlBytes: number;
  readonly bodyBytes: number;
  readonly connections: number;
  /** 0: no limit. */
  readonly connectionsPerAddress: number;
  /** How much of a JSON answer, or of each event of a stream, is read for what it used. */
  readonly meteredBytes: number;
  readonly upstreamConnections: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly responseTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly upstreamIdleMs: number;
  readonly connectRetryMs: number;
  readonly tunnelsPerKey: number;
  readonly tunnelIdleMs: number;
  readonly drainDelayMs: number;
  readonly drainMs: number;
};

type DrainSettings = {
  readonly environments: readonly {
    readonly limits: Pick<EdgeLimits, "drainDelayMs" | "drainMs">;
  }[];
};

/** `totalMs` is the delay plus the drain: a shutdown has ended by then. */
export type DrainTimes = {
  readonly delayMs: number;
  readonly drainMs: number;
  readonly totalMs: number;
};

/**
 * The longest time that a shutdown takes, in milliseconds. One drain delay and one drain serve all
 * environments of a process, so the longest of each counts.
 */
export function drainTimes({ environments }: DrainSettings): DrainTimes {
  const limits = environments.map((environment) => environment.limits);
  const delayMs = Math.max(0, ...limits.map(({ drainDelayMs }) => drainDelayMs));
  const drainMs = Math.max(0, ...limits.map((one) => one.drainMs));
  return { delayMs, drainMs, totalMs: delayMs + drainMs };
}
