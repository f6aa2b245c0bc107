import { buildConnector, Client } from "undici";

export type UpstreamsOptions = {
  readonly origins: readonly string[];
  /** Connections to each upstream, at most. */
  readonly connectionsMax: number;
  readonly connectTimeoutMs: number;
  readonly headerBytesMax: number;
  /** The monotonic clock, in milliseconds. */
  readonly elapsed: () => number;
};

/** Below the idle time of common backends (5 s and up), so that we are the first to close. */
const KEEP_ALIVE_MS = 4_000;
const FAILURES_MAX = 5;
const OUT_MS = 10_000;

/**
 * One connection to a backend, for one request at a time. Knowing the connection is what makes a
 * safe retry possible: only a reused one can have died of old age. A lane whose connection died
 * connects anew with its next request.
 */
export class Lane {
  readonly client: Client;
  readonly upstream: Upstream;
  /** Responses on the present connection: 0 means that it is new. */
  answered = 0;

  constructor(upstream: Upstream, options: UpstreamsOptions) {
    this.upstream = upstream;
    this.client = new Client(upstream.origin, {
      pipelining: 1,
      allowH2: false,
      connect: { timeout: options.connectTimeoutMs },
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
      // Time limits are the gateway's own: the library's are coarse, and a timer each.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: 4 * options.headerBytesMax,
    });
    this.client.on("connect", () => {
      this.answered = 0;
    });
  }

  get reused(): boolean {
    return this.answered > 0;
  }
}

type Waiter = { readonly onLane: (lane: Lane) => void };

/** One backend: its lanes, who waits for one, and whether it is in service. */
export class Upstream {
  readonly origin: string;
  readonly idle: Lane[] = [];
  readonly waiters = new Set<Waiter>();
  lanes = 0;
  pending = 0;
  failuresInRow = 0;
  /** On the monotonic clock: when the next probe is due; undefined while in service. */
  outUntilMs: number | undefined;
  probing = false;

  constructor(origin: string) {
    this.origin = origin;
  }
}

/**
 * The backends of one environment (edge.md, Request out): least pending requests first; five
 * failures in a row take one out for 10 s, then one probe decides; the last one in service is never
 * taken out.
 */
export class Upstreams {
  readonly options: UpstreamsOptions;
  readonly all: readonly Upstream[];
  #closed = false;

  constructor(options: UpstreamsOptions) {
    this.options = options;
    this.all = options.origins.map((origin) => new Upstream(origin));
  }

  /**
   * Gives a lane of the least pending backend, at once or when one is free. The returned function
   * gives up waiting; it does nothing once there is a lane.
   */
  take(onLane: (lane: Lane) => void): () => void {
    const upstream = this.#leastPending();
    upstream.pending += 1;
    const lane = upstream.idle.pop() ?? this.#newLane(upstream);
    if (lane !== undefined) {
      onLane(lane);
      return nothing;
    }
    const waiter = { onLane };
    upstream.waiters.add(waiter);
    return () => {
      if (upstream.waiters.delete(waiter)) upstream.pending -= 1;
    };
  }

  /** Gives a lane back, after its response ended or failed. */
  release(lane: Lane): void {
    const { upstream } = lane;
    upstream.pending -= 1;
    const [waiter] = upstream.waiters;
    if (waiter !== undefined) {
      upstream.waiters.delete(waiter);
      waiter.onLane(lane);
    } else if (this.#closed) {
      void lane.client.close();
    } else {
      upstream.idle.push(lane);
    }
  }

  /** The backend for a tunnel, which opens a connection of its own; pending until `done`. */
  pick(): Upstream {
    const upstream = this.#leastPending();
    upstream.pending += 1;
    return upstream;
  }

  done(upstream: Upstream): void {
    upstream.pending -= 1;
  }

  succeeded({ upstream }: Pick<Lane, "upstream">): void {
    upstream.failuresInRow = 0;
  }

  failed({ upstream }: Pick<Lane, "upstream">): void {
    upstream.failuresInRow += 1;
    if (upstream.failuresInRow < FAILURES_MAX || upstream.outUntilMs !== undefined) return;
    const inService = this.all.filter(({ outUntilMs }) => outUntilMs === undefined);
    if (inService.length > 1) upstream.outUntilMs = this.options.elapsed() + OUT_MS;
  }

  /** Probes the backends whose time out is over; called by the sweep, a few times a second. */
  probe(nowMs: number): void {
    for (const upstream of this.all) {
      if (upstream.outUntilMs === undefined || upstream.probing || upstream.outUntilMs > nowMs) {
        continue;
      }
      upstream.probing = true;
      tryConnect(upstream.origin, this.options.connectTimeoutMs, (connected) => {
        upstream.probing = false;
        upstream.outUntilMs = connected ? undefined : this.options.elapsed() + OUT_MS;
        if (connected) upstream.failuresInRow = FAILURES_MAX - 1;
      });
    }
  }

  /** Which backends are in service; one that was never tried is. */
  health(): { readonly origin: string; readonly up: boolean }[] {
    return this.all.map(({ origin, outUntilMs, failuresInRow }) => {
      return { origin, up: outUntilMs === undefined && failuresInRow < FAILURES_MAX };
    });
  }

  /** Closes idle connections now, and busy ones when their response has ended. */
  async close(): Promise<void> {
    this.#closed = true;
    const idle = this.all.flatMap((upstream) => upstream.idle.splice(0));
    await Promise.allSettled(idle.map(({ client }) => client.close()));
  }

  #leastPending(): Upstream {
    let least: Upstream | undefined;
    for (const upstream of this.all) {
      if (upstream.outUntilMs !== undefined) continue;
      if (least === undefined || upstream.pending < least.pending) least = upstream;
    }
    return least ?? (this.all[0] as Upstream);
  }

  #newLane(upstream: Upstream): Lane | undefined {
    if (upstream.lanes >= this.options.connectionsMax) return undefined;
    upstream.lanes += 1;
    return new Lane(upstream, this.options);
  }
}

function nothing(): void {}

/** A bare connection says that a backend is back, and no backend sees a request it cannot explain. */
function tryConnect(origin: string, timeoutMs: number, done: (connected: boolean) => void): void {
  const { protocol, hostname, port, host } = new URL(origin);
  buildConnector({ timeout: timeoutMs })({ protocol, hostname, port, host }, (error, socket) => {
    socket?.destroy();
    done(error === null);
  });
}
