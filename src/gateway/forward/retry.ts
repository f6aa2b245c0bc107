import type { BackendConnection, Upstream } from "../upstreams/backend-connection.ts";
import type { Preference, Upstreams } from "../upstreams/upstreams.ts";
import { isConnectionLoss, isUnreached } from "./backend-response.ts";

const RETRIED: ReadonlySet<string> = new Set(["GET", "HEAD"]);
/** Backends that one request may find unreachable before it is answered. */
const UNREACHED_MAX = 3;
const NONE: ReadonlySet<Upstream> = new Set();

/** The course of one try until it failed. */
export type Failed = {
  readonly error: Error;
  readonly connection: BackendConnection;
  readonly method: string;
  /** The library had a connection and wrote, or was about to write, the request. */
  readonly started: boolean;
  /** That connection had carried a response before. */
  readonly reused: boolean;
  /** Bytes of a response had come. */
  readonly answering: boolean;
};

type Again = "aged" | "unreached" | undefined;

/** The tries of one request so far, and their consequences for the next one. */
export class Attempts implements Preference {
  fresh = false;
  shunned: Upstream | undefined;
  unreached: ReadonlySet<Upstream> = NONE;

  /**
   * Whether the request may go out again (docs/reference/edge.md#retries), and why. `unreached`: a
   * backend that could not be connected to has seen nothing, so any request may go to another one.
   * `aged`: a connection that had carried responses died before any byte of this one; then once,
   * and on a new connection: any request that was not sent yet, and GET and HEAD that were.
   */
  again(upstreams: Upstreams, { error, connection, method, ...was }: Failed): Again {
    const { started } = was;
    const isOld = started ? was.reused : connection.reused;
    if (isOld && !this.fresh && !was.answering && isConnectionLoss(error)) {
      if (started && !RETRIED.has(method)) return undefined;
      this.fresh = true;
      this.shunned = connection.upstream;
      return "aged";
    }
    if (started || !isUnreached(error)) return undefined;
    this.unreached = new Set(this.unreached).add(connection.upstream);
    const isLeft = this.unreached.size < UNREACHED_MAX && upstreams.hasOther(this.unreached);
    return isLeft ? "unreached" : undefined;
  }
}
