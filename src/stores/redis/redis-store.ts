import type { ConnectionOptions } from "node:tls";
import type { Ask, Verdict } from "../../core/quota/decide.ts";
import type { Limit } from "../../core/quota/windows.ts";
import type { Report } from "../../telemetry/log.ts";
import { Batch, type Gate } from "../batch/batch.ts";
import type { CountLost } from "../batch/last-answers.ts";
import {
  type AccountBan,
  type AccountName,
  accountId,
  accountOf,
  type QuotaStore,
  type ResetWindow,
} from "../interface/quota-store.ts";
import { orLate, type StoreFailure } from "../interface/store-failure.ts";
import { LIFT, RESET } from "./account-scripts.ts";
import { findBans } from "./bans.ts";
import { createSharedStore, type SharedStore } from "./decider.ts";
import { createEvents, type Events } from "./events.ts";
import { bucketOf } from "./keyspace.ts";
import type { Link } from "./link.ts";
import { connectRedis, type RedisAddress } from "./single-link.ts";
import { type Eviction, tellLosses, watchEviction } from "./warnings.ts";
import { counterOfField, fieldOfCounter } from "./window-fields.ts";

export type RedisStoreOptions = {
  readonly address: RedisAddress;
  /** `storePrefix`: every key of ours begins with it. */
  readonly prefix: string;
  readonly report: Report;
  /**
   * Decides while the store is away (docs/reference/store.md#away). By default nothing does, as
   * under `onStoreFailure: deny`.
   */
  readonly gate?: (shared: SharedStore, store: QuotaStore) => StandIn;
  /** The store's clock in tests, in milliseconds; default: the clock of Redis. */
  readonly now?: () => number;
  /** The time that a decision may take before it counts as lost, in milliseconds; default 50. */
  readonly lateMs?: number;
  /** For `rediss://`, beyond what Node trusts by itself. */
  readonly tls?: ConnectionOptions;
};

/**
 * Decides requests while Redis is unreachable. `close` and `health` are optional: the default,
 * DENY, has neither.
 */
type StandIn = Gate & {
  health?(): { readonly ok: boolean; readonly why?: string };
  close?(): Promise<void>;
};

const DENY: StandIn = {
  isAway: () => false,
  decide: () => ({ unavailable: true }),
  called: () => undefined,
};
const ADMIN_LATE_MS = 2_000;
/** Failures that a probe which only reads cannot see to be over. */
const OF_WRITES = new Set(["OOM", "READONLY", "MISCONF", "NOREPLICAS", "NOPERM"]);

/**
 * The store of many gateways. Resolves once connected, or when the first attempt to connect failed:
 * a store that is away does not keep a gateway from starting. It connects by itself from then on.
 */
export async function createRedisStore(options: RedisStoreOptions): Promise<QuotaStore> {
  const link = new CountedLink(connectRedis(options));
  const store = new RedisStore(link, options);
  await link.tried;
  return store;
}

/** A link that counts the commands of this store. */
class CountedLink implements Link {
  readonly #link: Link;
  readonly clustered: boolean;
  readonly tried: Promise<void>;
  sent = 0;

  constructor(link: Link) {
    this.#link = link;
    this.clustered = link.clustered;
    this.tried = link.tried;
  }

  send: Link["send"] = (key, name, args) => {
    this.sent += 1;
    return this.#link.send(key, name, args);
  };
  masters: Link["masters"] = () => this.#link.masters();
  subscribe: Link["subscribe"] = (channel, subscriber) => this.#link.subscribe(channel, subscriber);
  health: Link["health"] = () => this.#link.health();
  close: Link["close"] = () => this.#link.close();
}

class RedisStore implements QuotaStore {
  readonly #link: CountedLink;
  readonly #options: RedisStoreOptions;
  readonly #shared: SharedStore;
  readonly #batch: Batch;
  readonly #events: Events;
  readonly #eviction: Eviction;
  readonly #tellLoss: ReturnType<typeof tellLosses>;
  readonly #gate: StandIn;
  #failure: StoreFailure | undefined;

  constructor(link: CountedLink, options: RedisStoreOptions) {
    const { address, prefix, report, now, lateMs } = options;
    this.#link = link;
    this.#options = options;
    this.#shared = createSharedStore(link, prefix, { clock: now, lateMs });
    this.#batch = new Batch({
      call: (asks) => this.#shared.decide(asks, lateMs, this.#gate.deadlineMs?.()),
      queueOf: (name) => (link.clustered ? bucketOf(name) : 0),
      clock: now,
      gate: {
        isAway: (queue) => this.#gate.isAway(queue),
        decide: (name, ask, why) => this.#gate.decide(name, ask, why),
        called: (queue, why) => {
          this.#failure = why;
          this.#gate.called(queue, why);
        },
      },
      onVerdict: (name, verdict, lost) => this.#told(name, verdict, lost),
    });
    this.#events = createEvents({
      shared: this.#shared,
      prefix,
      forget: (id) => this.#batch.forget(id === undefined ? undefined : accountOf(id)),
      probed: (why) => {
        if (why !== undefined || !OF_WRITES.has(this.#failure?.code ?? "")) this.#failure = why;
      },
    });
    this.#tellLoss = tellLosses(address.shown, report);
    this.#eviction = watchEviction(link, address.shown, report);
    this.#gate = options.gate?.(this.#shared, this) ?? DENY;
  }

  spend(name: AccountName, ask: Ask): ReturnType<QuotaStore["spend"]> {
    return this.#batch.spend(name, ask);
  }

  lastKnown(name: AccountName, limits?: readonly Limit[]): Verdict | undefined {
    return this.#batch.lastKnown(name, limits);
  }

  forget(name?: AccountName): void {
    this.#batch.forget(name);
  }

  async peek(name: AccountName, ask: Omit<Ask, "units">): Promise<Verdict> {
    // For people, who would rather wait than be told that the store is away.
    const one = { name, ask: { ...ask, units: 0 } };
    const [outcome] = await this.#shared.decide([one], ADMIN_LATE_MS);
    if (outcome === undefined || "failure" in outcome) throw outcome?.failure;
    return outcome;
  }

  bans(): Promise<AccountBan[]> {
    return findBans(this.#link, this.#options.prefix, this.#options.now);
  }

  async liftBan(name: AccountName): Promise<boolean> {
    const clockMs = this.#options.now?.() ?? -1;
    const run = this.#shared.run(LIFT, this.#shared.keyOf(name), [clockMs]);
    const lifted = await orLate(run, ADMIN_LATE_MS);
    this.#batch.forget(name);
    await this.#events.publish(accountId(name));
    return lifted === 1;
  }

  async reset(name: AccountName, counters?: readonly string[]): Promise<ResetWindow[]> {
    const fields = counters?.map(fieldOfCounter) ?? [];
    if (counters?.length === 0) return [];
    const clockMs = this.#options.now?.() ?? -1;
    const run = this.#shared.run(RESET, this.#shared.keyOf(name), [clockMs, ...fields]);
    const reply = (await orLate(run, ADMIN_LATE_MS)) as string[];
    await this.forgetEverywhere([name]);
    const reset: ResetWindow[] = [];
    for (let i = 0; i < reply.length; i += 2) {
      const counter = counterOfField(reply[i] as string);
      reset.push({ counter, units: Number(reply[i + 1]) });
    }
    return reset;
  }

  async forgetEverywhere(names: readonly AccountName[]): Promise<void> {
    for (const name of names) this.#batch.forget(name);
    await this.#events.publishAll(names.map(accountId));
  }

  commands(): number {
    return this.#link.sent;
  }

  unsafePolicy(): boolean {
    return this.#eviction.unsafe();
  }

  health(): { readonly ok: boolean; readonly why?: string } {
    const way = this.#link.health();
    const why = this.#failure;
    // A fallback has a heartbeat that writes, and knows better than the last call.
    const known = this.#gate.health?.() ?? { ok: why === undefined, why: why?.message ?? "" };
    // On a Cluster the fallback knows which part is away; elsewhere the link tells why there is no
    // connection.
    return known.ok || (!way.ok && !this.#link.clustered) ? way : known;
  }

  async close(): Promise<void> {
    this.#events.close();
    this.#eviction.stop();
    this.#batch.close();
    await this.#gate.close?.();
    await this.#link.close();
  }

  #told(name: AccountName, verdict: Verdict, lost: CountLost | undefined): void {
    const { address, report } = this.#options;
    if (verdict.repaired) {
      const { environment, account } = name;
      report("warn", "counter_repaired", { environment, account, store: address.shown });
    }
    if (lost !== undefined) this.#tellLoss(name, lost);
    if (verdict.ban !== undefined && verdict.earned !== undefined)
      this.#events.tell(accountId(name));
  }
}
