import { isFilesShortage } from "../../base/open-files.ts";
import type { RequestFailure } from "../../http1/client/outgoing-request.ts";
import type { Upstream } from "../upstreams/upstream.ts";
import type { PickPreference, UpstreamPool } from "../upstreams/upstream-pool.ts";

const RETRIED: ReadonlySet<string> = new Set(["GET", "HEAD"]);
/** The most upstreams that one request may find unreachable in one round. */
const UNREACHED_MAX = 3;
/** The pause between two rounds over all upstreams, as long as `connectRetry` allows them. */
export const ROUND_MS = 100;
const NONE: ReadonlySet<Upstream> = new Set();

/** `pauseMs` is the pause before the next round: every upstream may be reachable by then. */
type RetryReason = "aged" | "unreached" | "short" | { readonly pauseMs: number } | undefined;

/** The attempts of one request so far, and their consequences for the next one. */
export class RetryPolicy implements PickPreference {
  freshOnly = false;
  avoided: Upstream | undefined;
  unreachable: ReadonlySet<Upstream> = NONE;
  readonly #method: string;
  readonly #connectRetryMs: number;
  readonly #elapsed: () => number;
  /** When the first round ended without a reachable upstream. */
  #roundsSinceMs: number | undefined;

  /** `elapsed` is the monotonic clock, in milliseconds. */
  constructor(method: string, connectRetryMs: number, elapsed: () => number) {
    this.#method = method;
    this.#connectRetryMs = connectRetryMs;
    this.#elapsed = elapsed;
  }

  get isRepeatable(): boolean {
    return RETRIED.has(this.#method) && !this.freshOnly;
  }

  /**
   * Whether the request may be sent again (docs/reference/edge.md#retries), and why. `unreached`:
   * an upstream that could not be connected to has seen nothing. So any request may go to another
   * one, and if none is left, to all of them again after a pause. `aged`: a connection that had
   * carried responses died before any byte of this response. Then one retry on a new connection is
   * allowed, for any request that was not sent yet, and for GET and HEAD that were sent. The same
   * holds if the upstream refused the handshake after the request was sent. `short`: the gateway has
   * no file left for a connection, and the request waits for one, whatever its method.
   */
  nextAttempt(upstreams: UpstreamPool, upstream: Upstream, failure: RequestFailure): RetryReason {
    if (failure.kind === "unanswered" && failure.reused && !this.freshOnly) {
      if (failure.sent && !this.isRepeatable) return undefined;
      this.freshOnly = true;
      this.avoided = upstream;
      return "aged";
    }
    if (failure.kind !== "unreached") return undefined;
    if (isFilesShortage(failure.why)) return "short";
    if (failure.sent) {
      if (!this.isRepeatable) return undefined;
      this.freshOnly = true;
    }
    this.unreachable = new Set(this.unreachable).add(upstream);
    const isLeft = this.unreachable.size < UNREACHED_MAX && upstreams.hasOther(this.unreachable);
    return isLeft ? "unreached" : this.#nextRound();
  }

  #nextRound(): RetryReason {
    const nowMs = this.#elapsed();
    this.#roundsSinceMs ??= nowMs;
    const leftMs = this.#connectRetryMs - (nowMs - this.#roundsSinceMs);
    if (leftMs <= 0) return undefined;
    this.unreachable = NONE;
    return { pauseMs: Math.min(ROUND_MS, leftMs) };
  }
}
