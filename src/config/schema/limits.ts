import { z } from "zod";
import * as kind from "./value-types.ts";
import { optional } from "./value-types.ts";

const TIMEOUT = { from: "1ms", to: "24h" };
const PAUSE = { from: "0s", to: "24h" };
/** The limits of the edge (docs/configuration.md#limits). */
export const limits = z.strictObject(
  {
    headerBytes: optional(
      kind.size({ from: "256B", to: "1MiB" }),
      "16KiB",
      "All header fields of a request, trailers included; more is 431. The target has urlBytes of its own.",
    ),
    headerCount: optional(
      kind.integer({ from: 1, to: 10_000 }),
      100,
      "Header fields of a request; more is 431.",
    ),
    urlBytes: optional(
      kind.size({ from: "1B", to: "1MiB" }),
      "8KiB",
      "The request target; a longer one is 414.",
    ),
    bodyBytes: optional(
      kind.size({ from: "0B", to: "1024GiB" }),
      "1MiB",
      "The body of a request; a longer one is 413.",
    ),
    connections: optional(
      kind.integer({ from: 1, to: 1_000_000 }),
      20_000,
      "Client connections of a listener at once; a further one takes the place of the one that is idle longest. The largest holds where environments share a listener.",
    ),
    connectionsPerAddress: optional(
      kind.integer({ from: 0, to: 1_000_000 }),
      0,
      "Connections of one client address (IPv6: a /64) to a listener at once, trustedProxies excepted; 0: no limit. The smallest above 0 holds where environments share a listener.",
    ),
    meteredBytes: optional(
      kind.size({ from: "1B", to: "64MiB" }),
      "1MiB",
      "How much of an answer is read for what it used: of a JSON body, or of each event of a stream. All of it passes at once, whatever is read.",
    ),
    upstreamConnections: optional(
      kind.integer({ from: 1, to: 65_535 }),
      256,
      "Connections to each upstream at once.",
    ),
    headersTimeout: optional(
      kind.duration(TIMEOUT),
      "10s",
      "For the head of a request to arrive; never longer than requestTimeout. Later is 408. The longest holds where environments share a listener.",
    ),
    requestTimeout: optional(
      kind.duration(TIMEOUT),
      "30s",
      "For the whole request to arrive; raise it for uploads. Later is 408.",
    ),
    connectTimeout: optional(
      kind.duration(TIMEOUT),
      "2s",
      "For a connection to an upstream; longer is 502.",
    ),
    responseTimeout: optional(
      kind.duration(TIMEOUT),
      "60s",
      "From the last byte of the request to the head of the response; longer is 504.",
    ),
    idleTimeout: optional(
      kind.duration(TIMEOUT),
      "60s",
      "Between two pieces of a body, either way, and between two requests of a connection; it sets a least speed for clients that read slowly. Keep it above the idle time of a proxy in front.",
    ),
    upstreamIdle: optional(
      kind.duration(TIMEOUT),
      "4s",
      "A connection to an upstream that was not used for this long is closed; keep it below the idle time of the upstream.",
    ),
    connectRetry: optional(
      kind.duration(PAUSE),
      "0s",
      "For how long a request that no upstream could be connected for waits and tries again, before it is 502.",
    ),
    tunnelsPerKey: optional(
      kind.integer({ from: 0, to: 1_000_000 }),
      100,
      "WebSocket tunnels of one key at once.",
    ),
    tunnelIdle: optional(
      kind.duration(TIMEOUT),
      "60s",
      "A tunnel without traffic for this long is closed.",
    ),
    drainDelay: optional(
      kind.duration(PAUSE),
      "0s",
      "From SIGTERM until listeners close, for load balancers to notice.",
    ),
    drain: optional(
      kind.duration(PAUSE),
      "25s",
      "For requests under way to end when the gateway stops.",
    ),
  },
  "a map of limits",
);

export type LimitOverrides = {
  readonly [K in keyof z.output<typeof limits>]?: z.output<typeof limits>[K];
};

/** The same keys without defaults. A key that is absent has the value of the general limits. */
export const overrides = overridesOf(Object.keys(limits.shape));

/** The limits of a backend, without those that apply before a backend is chosen. */
export const backendLimits = overridesOf([
  "bodyBytes",
  "upstreamConnections",
  "connectTimeout",
  "responseTimeout",
  "idleTimeout",
  "upstreamIdle",
  "connectRetry",
  "tunnelIdle",
]);

function overridesOf(names: readonly string[]) {
  const fields = Object.entries(limits.shape).filter(([key]) => names.includes(key));
  return z.strictObject(
    Object.fromEntries(
      fields.map(([key, field]) => {
        const { description } = field.meta() ?? {};
        return [key, field.unwrap().optional().meta({ description })];
      }),
    ),
    "a map of limits",
  ) as z.ZodType<LimitOverrides, LimitOverrides>;
}
