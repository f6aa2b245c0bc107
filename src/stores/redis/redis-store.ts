import { hash, randomUUID } from "node:crypto";
import type { ConnectionOptions } from "node:tls";
import type { DaySpan, DayUsage } from "../../core/quota/days.ts";
import type { Ask, Ban, Verdict } from "../../core/quota/decide.ts";
import type { Limit } from "../../core/quota/windows.ts";
import type { Report } from "../../telemetry/log.ts";
import { Answers } from "../batch/answers.ts";
import { Batch } from "../batch/batch.ts";
import type { CountLost } from "../batch/last-answers.ts";
import type { Outage, UncertainCharge } from "../batch/outage.ts";
import {
  type AccountBan,
  type AccountName,
  accountId,
  accountOf,
  type ImposedBan,
  type QuotaStore,
  type ReloadedPolicy,
  type ResetWindow,
  type ToldReset,
} from "../interface/quota-store.ts";
import { orLate, type StoreFailure } from "../interface/store-failure.ts";
import { BAN, LIFT, MARK, RESET } from "./account-scripts.ts";
import { findBans } from "./bans.ts";
import { CountedLink } from "./counted-link.ts";
import { createSharedStore, type SharedStore } from "./decider.ts";
import { createEvents, type Events } from "./events.ts";
import { readHistory } from "./history.ts";
import { BUCKETS, bucketOf, crc16 } from "./keyspace.ts";
import { NoOutage } from "./no-outage.ts";
import { RedisNotes } from "./notes.ts";
import { connectRedis, type RedisAddress } from "./single-link.ts";
import { ToldResets } from "./told-resets.ts";
import { type Eviction, tellLosses, watchEviction } from "./warnings.ts";
import { counterOfField, fieldOfCounter } from "./window-fields.ts";

/** A store whose absence is to be bridged: the calls to it, and its last answers. */
export type BridgedStore = {
  readonly shared: SharedStore;
  readonly answers: Answers;
  readonly onUncertain: (charges: readonly UncertainCharge[]) => void;
};

export type RedisStoreOptions = {
  readonly address: RedisAddress;
  /** `storePrefix`: every key of ours begins with it. */
  readonly prefix: string;
  readonly report: Report;
  /**
   * Makes what decides while the store is away (docs/reference/store.md#away). By default nothing
   * does, as under `onStoreFailure: deny`.
   */
  readonly outage?: (store: BridgedStore) => Outage;
  /** The store's clock in tests, in milliseconds; default: the clock of Redis. */
  readonly now?: () => number;
  /** For how long the usage of each account is kept by day; by default it is not. */
  readonly historyMs?: number | undefined;
  /** Without `outage`: how long a call may take before it counts as lost; default 50 ms. */
  readonly patienceMs?: number | undefined;
  /**
   * Told of the resets that commands made in the store: of each by one gateway. Without it this store
   * is that of a command, and leaves its own resets to the gateways.
   */
  readonly onReset?: ((reset: ToldReset) => void) | undefined;
  /** For `rediss://`, beyond what Node trusts by itself. */
  readonly tls?: ConnectionOptions;
};

const ADMIN_LATE_MS = 2_000;
/** So much of a digest has 80 bits: no two markers meet. */
const MARKER_DIGITS = 20;
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

class RedisStore implements QuotaStore {
  readonly #link: CountedLink;
  readonly #options: RedisStoreOptions;
  readonly #shared: SharedStore;
  readonly #batch: Batch;
  readonly #events: Events;
  readonly #resets: ToldResets;
  readonly #eviction: Eviction;
  readonly #tellLoss: ReturnType<typeof tellLosses>;
  readonly #answers: Answers;
  readonly #outage: Outage;
  readonly notes: RedisNotes;
  #failure: StoreFailure | undefined;
  #uncertainUnits = 0;
  /** Names this gateway in its markers. */
  readonly #origin = randomUUID();

  constructor(link: CountedLink, options: RedisStoreOptions) {
    const { address, prefix, report, now, patienceMs, historyMs } = options;
    this.#link = link;
    this.#options = options;
    const shared = createSharedStore(link, prefix, { clock: now, historyMs });
    const answers = new Answers(now);
    const onUncertain = (charges: readonly UncertainCharge[]) => this.#tellUncertain(charges);
    this.#shared = shared;
    this.notes = new RedisNotes(shared, prefix);
    this.#answers = answers;
    this.#outage =
      options.outage?.({ shared, answers, onUncertain }) ?? new NoOutage(shared, patienceMs);
    this.#batch = new Batch({
      call: shared.decide,
      queueOf: (name) => (link.clustered ? bucketOf(name) : 0),
      answers,
      outage: this.#outage,
      onVerdict: (name, verdict, lost) => this.#told(name, verdict, lost),
      onCalled: (failure) => {
        this.#failure = failure;
      },
      onUncertain,
    });
    this.#resets = new ToldResets(shared, prefix);
    this.#events = createEvents({
      shared,
      prefix,
      forget: (id) => answers.forget(id === undefined ? undefined : accountOf(id)),
      resets: () => this.#tellResets(),
      probed: (why) => {
        if (why !== undefined || !OF_WRITES.has(this.#failure?.code ?? "")) this.#failure = why;
      },
    });
    this.#tellLoss = tellLosses(address.shown, report);
    this.#eviction = watchEviction(link, address.shown, report);
  }

  spend(name: AccountName, ask: Ask): ReturnType<QuotaStore["spend"]> {
    return this.#batch.spend(name, ask);
  }

  lastKnown(name: AccountName, limits?: readonly Limit[]): Verdict | undefined {
    return this.#answers.lastKnown(name, limits);
  }

  forget(name?: AccountName): void {
    this.#answers.forget(name);
  }

  async peek(name: AccountName, ask: Omit<Ask, "units">): Promise<Verdict> {
    // For people, who would rather wait than be told that the store is away.
    const one = { name, ask: { ...ask, units: 0 } };
    const [outcome] = await orLate(this.#shared.decide([one]), ADMIN_LATE_MS);
    if (outcome === undefined || "failure" in outcome) throw outcome?.failure;
    return outcome;
  }

  bans(): Promise<AccountBan[]> {
    return findBans(this.#link, this.#options.prefix, this.#options.now);
  }

  async ban(name: AccountName, { lengthMs, window, keptMs }: ImposedBan): Promise<Ban> {
    const clockMs = this.#options.now?.() ?? -1;
    const argv = [clockMs, Math.round(lengthMs), fieldOfCounter(window), Math.round(keptMs)];
    const run = this.#shared.run(BAN, this.#shared.keyOf(name), argv);
    const [untilMs, offences] = (await orLate(run, ADMIN_LATE_MS)) as [string, string];
    await this.forgetEverywhere([name]);
    return { untilMs: Number(untilMs), lengthMs, window, offences: Number(offences) };
  }

  async liftBan(name: AccountName): Promise<boolean> {
    const clockMs = this.#options.now?.() ?? -1;
    const run = this.#shared.run(LIFT, this.#shared.keyOf(name), [clockMs]);
    const lifted = await orLate(run, ADMIN_LATE_MS);
    this.#answers.forget(name);
    await this.#events.publish(accountId(name));
    return lifted === 1;
  }

  async reset(name: AccountName, counters?: readonly string[]): Promise<ResetWindow[]> {
    const fields = counters?.map(fieldOfCounter) ?? [];
    if (counters?.length === 0) return [];
    const giveUpMs = performance.now() + ADMIN_LATE_MS;
    const run = this.#shared.runOn(RESET, [this.#shared.keyOf(name)], fields, giveUpMs);
    const [atMs, ...reply] = (await orLate(run, ADMIN_LATE_MS)) as string[];
    const windows: ResetWindow[] = [];
    for (let i = 0; i < reply.length; i += 2) {
      const counter = counterOfField(reply[i] as string);
      windows.push({ counter, units: Number(reply[i + 1]) });
    }
    this.#answers.forget(name);
    if (this.#options.onReset !== undefined || windows.length === 0) {
      await this.#events.publish(accountId(name));
    } else {
      await this.#resets.keep({ name, atMs: Number(atMs), windows });
      await this.#events.publishReset(accountId(name));
    }
    return windows;
  }

  /** Tells the resets that wait: those that cannot be had now wait on. */
  #tellResets(): void {
    const { onReset } = this.#options;
    if (onReset === undefined) return;
    const tell = (resets: readonly ToldReset[]) => resets.forEach(onReset);
    this.#resets.take().then(tell, () => undefined);
  }

  history(names: readonly AccountName[], span: DaySpan): Promise<readonly DayUsage[][]> {
    return readHistory(this.#shared, names, span);
  }

  async forgetEverywhere(names: readonly AccountName[]): Promise<void> {
    for (const name of names) this.#answers.forget(name);
    await this.#events.publishAll(names.map(accountId));
  }

  async markFirst(marker: string, lifeMs: number): Promise<boolean> {
    const name = hash("sha256", marker, "hex").slice(0, MARKER_DIGITS);
    const key = `${this.#options.prefix}:{${crc16(name) % BUCKETS}}:told.${name}`;
    const run = this.#shared.run(MARK, key, [this.#origin, Math.ceil(lifeMs)]);
    return (await orLate(run, ADMIN_LATE_MS)) === 1;
  }

  reconfigure(policy: ReloadedPolicy): void {
    this.#shared.historyMs = policy.historyMs;
    this.#outage.reconfigure(policy);
  }

  charges(): { readonly uncertainUnits: number; readonly lostUnits: number } {
    return { uncertainUnits: this.#uncertainUnits, lostUnits: this.#outage.lostUnits() };
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
    const known = this.#outage.health() ?? { ok: why === undefined, why: why?.message ?? "" };
    // On a Cluster the fallback knows which part is away; elsewhere the link tells why there is no
    // connection.
    return known.ok || (!way.ok && !this.#link.clustered) ? way : known;
  }

  async close(): Promise<void> {
    this.#events.close();
    this.#eviction.stop();
    this.#batch.close();
    await this.#outage.close();
    await this.#link.close();
  }

  #tellUncertain(charges: readonly UncertainCharge[]): void {
    const units = charges.reduce((sum, one) => sum + one.units, 0);
    this.#uncertainUnits += units;
    const accounts = charges.map(({ name, units: of }) => `${accountId(name)} ${of}`).join(", ");
    const store = this.#options.address.shown;
    this.#options.report("warn", "charges_uncertain", { store, units, accounts });
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
