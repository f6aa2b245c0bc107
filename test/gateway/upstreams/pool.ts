import assert from "node:assert/strict";
import type {
  UpstreamConnection,
  UpstreamPoolOptions,
} from "../../../src/gateway/upstreams/upstream.ts";
import { type PickPreference, UpstreamPool } from "../../../src/gateway/upstreams/upstream-pool.ts";

/** A pool that checks no health and speaks no TLS. */
export const OPTIONS = {
  connectionsMax: 4,
  connectTimeoutMs: 2_000,
  idleMsMax: 4_000,
  ca: undefined,
  serverName: undefined,
  clientCertificate: undefined,
  healthCheck: undefined,
  machineNow: Date.now,
};

/** On a clock that the test moves; sockets are real. */
export function poolOf(
  origins: readonly string[],
  more: Partial<UpstreamPoolOptions> = {},
  before?: UpstreamPool,
) {
  const clock = { ms: 0 };
  const options = { ...OPTIONS, origins, elapsed: () => clock.ms, ...more };
  const upstreams = new UpstreamPool(options, before);
  return { upstreams, clock, [Symbol.asyncDispose]: async () => upstreams.close() };
}

export function take(upstreams: UpstreamPool, preference?: PickPreference): UpstreamConnection {
  let taken: UpstreamConnection | undefined;
  const onConnection = (connection: UpstreamConnection) => {
    taken = connection;
  };
  upstreams.take("acme", onConnection, preference);
  assert.ok(taken);
  return taken;
}

const FAILURE = { code: "upstream_unreachable", why: "ECONNREFUSED" } as const;

/** Failures that the pool hears of one backend, on whatever connection. */
export function fail(upstreams: UpstreamPool, origin: string, times: number): void {
  const upstream = upstreams.all.find((one) => one.origin === origin);
  assert.ok(upstream);
  for (let i = 0; i < times; i++) upstreams.health.failed(upstream, FAILURE);
}

/** Responses with a good head whose body breaks off. */
export function breakOff(upstreams: UpstreamPool, origin: string, times: number): void {
  const upstream = upstreams.all.find((one) => one.origin === origin);
  assert.ok(upstream);
  for (let i = 0; i < times; i++) {
    upstreams.health.answered(upstream, "acme", 200);
    upstreams.health.failed(upstream, { code: "upstream_invalid", why: "ECONNRESET" }, true);
  }
}

export function originsOf(upstreams: UpstreamPool, count: number): string[] {
  const connections = Array.from({ length: count }, () => take(upstreams));
  for (const connection of connections) upstreams.release(connection);
  return connections.map(({ upstream }) => upstream.origin);
}

export const A = "http://127.0.0.1:1";
export const B = "http://127.0.0.1:2";
