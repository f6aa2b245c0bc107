import type { RequestFailure } from "../../http1/client/outgoing-request.ts";
import type { Upstream } from "../upstreams/upstream.ts";
import type { PickPreference, UpstreamPool } from "../upstreams/upstream-pool.ts";

const RETRIED: ReadonlySet<string> = new Set(["GET", "HEAD"]);
/** Backends that one request may find unreachable before it is answered. */
const UNREACHED_MAX = 3;
const NONE: ReadonlySet<Upstream> = new Set();

type RetryReason = "aged" | "unreached" | undefined;

/** The tries of one request so far, and their consequences for the next one. */
export class RetryPolicy implements PickPreference {
  fresh = false;
  shunned: Upstream | undefined;
  unreached: ReadonlySet<Upstream> = NONE;

  /**
   * Whether the request may go out again (docs/reference/edge.md#retries), and why. `unreached`: a
   * backend that could not be connected to has seen nothing, so any request may go to another one.
   * `aged`: a connection that had carried responses died before any byte of this one; then once,
   * and on a new connection: any request that was not sent yet, and GET and HEAD that were.
   */
  again(
    upstreams: UpstreamPool,
    upstream: Upstream,
    loss: RequestFailure,
    method: string,
  ): RetryReason {
    if (loss.kind === "unanswered" && loss.reused && !this.fresh) {
      if (loss.sent && !RETRIED.has(method)) return undefined;
      this.fresh = true;
      this.shunned = upstream;
      return "aged";
    }
    if (loss.kind !== "unreached") return undefined;
    this.unreached = new Set(this.unreached).add(upstream);
    const isLeft = this.unreached.size < UNREACHED_MAX && upstreams.hasOther(this.unreached);
    return isLeft ? "unreached" : undefined;
  }
}
