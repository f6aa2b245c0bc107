import type { ConnectionOptions } from "node:tls";
import type { Verdict } from "../core/quota.ts";
import { Batch, type Gate } from "./batch.ts";
import { findBans } from "./redis-bans.ts";
import { connectRedis, type RedisAddress } from "./redis-connect.ts";
import { createEvents } from "./redis-events.ts";
import { watchEviction } from "./redis-eviction.ts";
import { orLate, type StoreFailure } from "./redis-failure.ts";
import type { Link } from "./redis-link.ts";
import { bucketOf, LIFT } from "./redis-script.ts";
import { createSharedStore, type SharedStore } from "./redis-shared.ts";
import type { AccountName, QuotaStore, Report } from "./store.ts";

export type RedisStoreOptions = {
  readonly address: RedisAddress;
  /** `storePrefix`: every key of ours begins with it. */
  readonly prefix: string;
  readonly report: Report;
  /** Contract 8: decides while the store is away. Default: none does (`onStoreFailure: deny`). */
  readonly gate?: (shared: SharedStore, store: QuotaStore) => StandIn;
  /** The store's clock in tests, in milliseconds; default: the clock of Redis. */
  readonly now?: () => number;
  /** How long a decision may take before it counts as lost, in milliseconds; default 50. */
  readonly lateMs?: number;
  /** For `rediss://`, beyond what Node trusts by itself. */
  readonly tls?: ConnectionOptions;
};

/** What stands in for the store, with an end and an opinion of its own where it has one. */
type StandIn = Gate & {
  health?(): { readonly ok: boolean; readonly why?: string };
  close?(): Promise<void>;
};

const DENY: StandIn = {
  shut: () => false,
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
  const { address, prefix, report, now, lateMs } = options;
  const connected = connectRedis(options);
  let commands = 0;
  const link: Link = {
    ...connected,
    send: (key, command, args) => {
      commands += 1;
      return connected.send(key, command, args);
    },
  };
  const shared = createSharedStore(link, prefix, { clock: now, lateMs });
  let failure: StoreFailure | undefined;
  let gate: StandIn = DENY;

  const batch = new Batch({
    call: (asks) => shared.decide(asks),
    laneOf: (name) => (link.clustered ? bucketOf(name) : 0),
    clock: now,
    gate: {
      shut: () => gate.shut(),
      decide: (name, ask, why) => gate.decide(name, ask, why),
      called: (why) => {
        note(why);
        gate.called(why);
      },
    },
    onVerdict: (name, verdict) => {
      if (verdict.repaired) report("warn", "counter_repaired", { ...name, store: address.shown });
      if (earned(verdict)) events.tell(idOf(name));
    },
  });

  const events = createEvents({
    shared,
    prefix,
    forget: (id) => batch.forget(id === undefined ? undefined : nameOf(id)),
    probed: (why) => {
      if (why !== undefined || !OF_WRITES.has(failure?.code ?? "")) note(why);
    },
  });

  const eviction = watchEviction(link, address.shown, report);

  function note(next: StoreFailure | undefined): void {
    failure = next;
  }

  const store: QuotaStore = {
    spend: (name, ask) => batch.spend(name, ask),
    lastKnown: (name) => batch.lastKnown(name),
    forget: (name) => batch.forget(name),
    look: async (name, ask) => {
      const [outcome] = await shared.decide([{ name, ask: { ...ask, units: 0 } }]);
      if (outcome === undefined || "failure" in outcome) throw outcome?.failure;
      return outcome;
    },
    bans: () => findBans(link, prefix, now),
    liftBan: async (name) => {
      const clockMs = now ? now() : -1;
      const lifted = await orLate(shared.run(LIFT, shared.keyOf(name), [clockMs]), ADMIN_LATE_MS);
      batch.forget(name);
      await events.publish(idOf(name));
      return lifted === 1;
    },
    commands: () => commands,
    unsafePolicy: () => eviction.unsafe(),
    health: () => {
      const way = link.health();
      // One that stands in has a heartbeat that writes, and knows better than the last call.
      const known = gate.health?.() ?? { ok: failure === undefined, why: failure?.message ?? "" };
      return known.ok || !way.ok ? way : known;
    },
    close: async () => {
      events.close();
      eviction.stop();
      batch.close();
      await gate.close?.();
      await link.close();
    },
  };
  gate = options.gate?.(shared, store) ?? DENY;
  await link.tried;
  return store;
}

/** The verdict of the very request that earned the ban, so that one gateway tells the others. */
function earned({ ban, nowMs }: Verdict): boolean {
  return ban !== undefined && ban.untilMs - ban.lengthMs === nowMs;
}

function idOf({ environment, account }: AccountName): string {
  return `${environment}:${account}`;
}

function nameOf(id: string): AccountName {
  const colon = id.indexOf(":");
  return { environment: id.slice(0, colon), account: id.slice(colon + 1) };
}
