/**
 * Everything at the edge has a limit (docs/reference/edge.md#timeouts): bytes, counts and
 * milliseconds.
 */
export type EdgeLimits = {
  readonly headerBytes: number;
  readonly headerCount: number;
  readonly urlBytes: number;
  readonly bodyBytes: number;
  readonly connections: number;
  readonly upstreamConnections: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly connectTimeoutMs: number;
  readonly responseTimeoutMs: number;
  readonly idleTimeoutMs: number;
  readonly tunnelsPerKey: number;
  readonly tunnelIdleMs: number;
  readonly drainDelayMs: number;
  readonly drainMs: number;
};

type Drained = {
  readonly environments: readonly {
    readonly limits: Pick<EdgeLimits, "drainDelayMs" | "drainMs">;
  }[];
};

export type DrainTimes = { readonly delayMs: number; readonly drainMs: number };

/**
 * The longest time that a shutdown takes, in milliseconds: one drain delay and one drain serve all
 * environments of a process, so that the longest of each counts.
 */
export function drainTimes({ environments }: Drained): DrainTimes {
  const limits = environments.map((environment) => environment.limits);
  return {
    delayMs: Math.max(0, ...limits.map(({ drainDelayMs }) => drainDelayMs)),
    drainMs: Math.max(0, ...limits.map(({ drainMs }) => drainMs)),
  };
}
