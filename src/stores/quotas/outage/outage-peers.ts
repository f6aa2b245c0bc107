import type { FailurePolicy } from "../quota-store.ts";
import type { Heartbeat, Peers } from "./heartbeat.ts";
import { PendingPeers } from "./pending-peers.ts";

/** The sources of the number of gateways. A reload replaces the policy. */
type GatewaysContext = {
  readonly heartbeat: Pick<Heartbeat, "gateways" | "peers">;
  readonly policy: FailurePolicy;
};

/**
 * The gateways of an outage of one part of the store: how many divide the limits into shares, and how
 * many others may still owe what they admitted from theirs.
 */
export class OutagePeers {
  readonly #context: GatewaysContext;
  #gateways = 1;
  /** Whether the outage began before any heartbeat had an answer, which names the gateways. */
  #beganUnseen = false;
  #peers: PendingPeers | undefined;
  /** Whether requests were decided from shares at any time in the outage of `#peers`. */
  #isShared = false;
  #pendingBefore = 0;

  constructor(context: GatewaysContext) {
    this.#context = context;
  }

  /** The number of gateways that divide the limits, this one included. */
  get gateways(): number {
    return this.#gateways;
  }

  /** The number of others that were already pending when this outage began. */
  get pendingBefore(): number {
    return this.#pendingBefore;
  }

  /** The number of others that may have admitted requests that they have not charged. */
  get pending(): number {
    return this.#isShared ? (this.#peers?.count ?? 0) : 0;
  }

  /** Whether there is an outage that `end` has not ended. */
  get isCurrent(): boolean {
    return this.#peers !== undefined;
  }

  /** Called when an outage begins. Returns whether gateways of the last one are still pending. */
  begin(): boolean {
    this.#pendingBefore = this.pending;
    const before = this.#pendingBefore > 0 ? this.#peers : undefined;
    this.#beganUnseen = this.#context.heartbeat.peers() === undefined;
    this.#shareAmong(this.#count(), before);
    this.#isShared = before !== undefined;
    this.onPolicy();
    return before !== undefined;
  }

  /** Called when the policy has changed: an outage under `deny` or `allow` may get shares. */
  onPolicy(): void {
    if (this.#context.policy.onStoreFailure === "local") this.#isShared = true;
  }

  /**
   * Called with heartbeats while the outage goes on. Takes in the gateways that were not known when
   * it began, if no heartbeat had an answer then. Returns whether there are more than before.
   */
  recount(): boolean {
    const gateways = this.#count();
    if (!this.#beganUnseen || gateways <= this.#gateways) return false;
    this.#shareAmong(gateways, this.#peers);
    return true;
  }

  /** Called with the answer to a heartbeat. */
  onHeartbeat(peers: Peers): void {
    this.#peers?.onHeartbeat(peers);
  }

  /** Called when the store answers, at `storeNowMs` of bucket 0's clock. */
  onStoreBack(storeNowMs: number): void {
    this.#peers?.onStoreBack(storeNowMs);
  }

  end(): void {
    this.#peers = undefined;
  }

  #count(): number {
    const { heartbeat, policy } = this.#context;
    return Math.max(policy.expectedGateways, heartbeat.gateways());
  }

  #shareAmong(gateways: number, before: PendingPeers | undefined): void {
    this.#gateways = gateways;
    this.#peers = new PendingPeers(gateways, this.#context.heartbeat.peers(), before);
  }
}
