import { isConnectionLoss, isUnreached } from "./backend-answer.ts";
import type { Upstreams, Wish } from "./upstreams.ts";
import type { Lane, Upstream } from "./upstreams-lane.ts";

const RETRIED: ReadonlySet<string> = new Set(["GET", "HEAD"]);
/** Backends that one request may find unreachable before it is answered. */
const UNREACHED_MAX = 3;

/** How one try went until it failed. */
export type Failed = {
  readonly error: Error;
  readonly lane: Lane;
  readonly method: string;
  /** The library had a connection and wrote, or was about to write, the request. */
  readonly started: boolean;
  /** That connection had carried a response before. */
  readonly reused: boolean;
  /** Bytes of a response had come. */
  readonly answering: boolean;
};

/** Where a request has been tried, and what that means for the next try. */
export class Attempts implements Wish {
  fresh = false;
  shunned: Upstream | undefined;
  readonly unreached = new Set<Upstream>();

  /**
   * Whether the request may go out again (edge.md, Request out). A backend that could not be
   * connected to has seen nothing, so any request may go to another one. One that was sent is sent
   * again only as GET or HEAD, once, on a new connection, when a reused one died before any byte of
   * a response.
   */
  again(upstreams: Upstreams, { error, lane, method, ...was }: Failed): boolean {
    if (!was.started) {
      if (!isUnreached(error)) return false;
      this.unreached.add(lane.upstream);
      return this.unreached.size < UNREACHED_MAX && upstreams.hasOther(this.unreached);
    }
    if (this.fresh || !was.reused || was.answering || !RETRIED.has(method)) return false;
    if (!isConnectionLoss(error)) return false;
    this.fresh = true;
    this.shunned = lane.upstream;
    return true;
  }
}
