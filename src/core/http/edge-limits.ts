/** Contract 2, `limits`: everything at the edge has one. Bytes, counts and milliseconds. */
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
