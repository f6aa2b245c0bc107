import { AgingMap } from "../../base/aging-map.ts";
import { addressAccount } from "../../core/keys/records.ts";
import type { Limit } from "../../core/quota/windows.ts";
import { type AccountRef, accountId } from "../../stores/quotas/account-ref.ts";

/** The terms of requests without a key to public operations of an environment. */
export type PublicPlan = {
  readonly environment: string;
  readonly plan: string;
  /** Windows of at most an hour. */
  readonly limits: readonly Limit[];
};

/**
 * The owner of requests without a key: a client address, counted exactly like an account
 * (docs/reference/plans.md#public-operations). It has no key, scopes, strikes or bans.
 */
export class AnonymousClient implements AccountRef {
  readonly key = undefined;
  readonly owner = undefined;
  readonly scopes: readonly string[] = [];
  readonly account: string;
  readonly id: string;
  readonly publicPlan: PublicPlan;
  bucket: number | undefined;

  constructor(account: string, publicPlan: PublicPlan) {
    this.account = account;
    this.id = accountId({ environment: publicPlan.environment, account });
    this.publicPlan = publicPlan;
  }

  get environment(): string {
    return this.publicPlan.environment;
  }

  get plan(): string {
    return this.publicPlan.plan;
  }

  get limits(): readonly Limit[] {
    return this.publicPlan.limits;
  }
}

/** The most addresses per second that this process sends to the store for the first time. */
const NEW_A_SECOND = 500;
/** The least number of clients kept once there are more; at most twice as many are kept. */
const KEPT = 50_000;
const OTHER = "addr:other";

/**
 * The anonymous clients of this process. New addresses are admitted at a bounded rate, because an
 * attacker has many.
 */
export class AnonymousClients {
  readonly #known = new AgingMap<AnonymousClient>(KEPT);
  /** The instants of the last new addresses, so that the bound holds in every second. */
  readonly #cameMs = new Float64Array(NEW_A_SECOND).fill(Number.NEGATIVE_INFINITY);
  /** The position of the oldest instant. */
  #oldest = 0;

  /**
   * The client at this address. The address is empty if the client was gone before it could be
   * read. `elapsedMs` is on a monotonic clock.
   */
  get(publicPlan: PublicPlan, client: string, elapsedMs: number): AnonymousClient {
    if (client === "") return new AnonymousClient(OTHER, publicPlan);
    const account = addressAccount(client);
    const id = accountId({ environment: publicPlan.environment, account });
    const known = this.#known.get(id);
    if (known?.publicPlan === publicPlan) return known;
    if (known === undefined && !this.#mayCome(elapsedMs))
      return new AnonymousClient(OTHER, publicPlan);
    const found = new AnonymousClient(account, publicPlan);
    this.#known.set(id, found);
    return found;
  }

  #mayCome(elapsedMs: number): boolean {
    if (elapsedMs - (this.#cameMs[this.#oldest] as number) < 1_000) return false;
    this.#cameMs[this.#oldest] = elapsedMs;
    this.#oldest = (this.#oldest + 1) % NEW_A_SECOND;
    return true;
  }
}
