import type { Redis } from "ioredis";
import { formatHostPort, type HostPort } from "../../../core/address.ts";
import { sendProven } from "../connection/proven-reply.ts";
import { StrictRedis } from "../connection/strict-redis.ts";
import { BUCKET_COUNT, bucketSlot } from "../hash-slots.ts";
import {
  atHost,
  type ClusterPart,
  type LinkHealth,
  type LinkOptions,
  type Subscriber,
  subscribeOn,
} from "../link.ts";
import {
  NODE_SILENT,
  NOT_YET,
  StoreFailure,
  toStoreFailure,
  unreachableFailure,
} from "../store-failure.ts";

const REFRESH_PAUSE_MS = 200;
/** An operator has to mend that, and each look-up connects to addresses that own nothing. */
const UNADDRESSED_PAUSE_MS = 1_000;
const NO_OWNER = "no node of the cluster owns the slot yet";
const NO_ADDRESS =
  "the Cluster knows no address of the node that has these slots (CLUSTER NODES: noaddr)";
const SLOTS = Array.from({ length: BUCKET_COUNT }, (_, bucket) => bucketSlot(bucket));

/** Which node owns which bucket, and the connections. */
export class ClusterMap {
  readonly #seeds: readonly HostPort[];
  readonly #options: LinkOptions;
  readonly #nodes = new Map<string, Redis>();
  /** The reason why a node cannot be connected to, where an attempt has said it. */
  readonly #reasons = new WeakMap<Redis, StoreFailure>();
  readonly #owners: (Redis | undefined)[] = Array.from({ length: BUCKET_COUNT }, () => undefined);
  /** The buckets whose owner has no address. */
  #unaddressed: ReadonlySet<number> = new Set();
  /** The connections that are subscribed. */
  readonly #listeners = new Set<Redis>();
  #refreshing: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #failure: StoreFailure | undefined;
  #closed = false;

  constructor(seeds: readonly HostPort[], options: LinkOptions) {
    this.#seeds = seeds;
    this.#options = options;
  }

  owner(bucket: number): Redis | undefined {
    return this.#owners[bucket];
  }

  /** Whether a node has told who owns the slots. */
  get #hasOwners(): boolean {
    return this.#owners.some((owner) => owner !== undefined);
  }

  /** See toCommandFailure. */
  whyNot(node: Redis): StoreFailure | undefined {
    return this.#reasons.get(node);
  }

  /** Why a bucket has no owner, or the reason for which no node could be asked for any owner. */
  unowned(bucket: number): StoreFailure {
    const why = this.#unaddressed.has(bucket) ? NO_ADDRESS : NO_OWNER;
    const { message } = (this.#hasOwners ? undefined : this.#failure) ?? unreachableFailure(why);
    return new StoreFailure("unreachable", message, "no");
  }

  /** Settles when each owner is connected or has failed to connect. */
  async connected(): Promise<void> {
    const owners = [...new Set(this.#owners)].filter((node) => node !== undefined);
    await Promise.allSettled(owners.map((node) => node.status === "ready" || whenReady(node)));
  }

  /** All buckets, by the node that owns them. */
  parts(): ClusterPart[] {
    return [...new Set(this.#owners)].map((owner) => ({
      node: owner === undefined ? "no node" : addressOf(owner),
      buckets: [...this.#owners.keys()].filter((bucket) => this.#owners[bucket] === owner),
    }));
  }

  moved(bucket: number, node: Redis): void {
    this.#owners[bucket] = node;
    this.refreshSoon();
  }

  /** The connection to the target of a redirection. ":port" is on the host that sent it. */
  async nodeAt(at: string, from: Redis): Promise<Redis> {
    const colon = at.lastIndexOf(":");
    const host = at.slice(0, colon) || String(from.options.host);
    const address = { host, port: Number(at.slice(colon + 1)) };
    if (!hasAddress(address)) {
      this.refreshSoon();
      throw unreachableFailure(NO_ADDRESS);
    }
    const node = this.#node(address);
    if (node.status !== "ready") await whenReady(node);
    return node;
  }

  #node(address: HostPort): Redis {
    const key = formatHostPort(address);
    let node = this.#nodes.get(key);
    if (node === undefined) {
      const made = new StrictRedis(atHost(this.#options, address));
      node = made;
      node.on("error", (error) => {
        this.#failure = made.refused ?? toStoreFailure(error);
        this.#reasons.set(made, this.#failure);
      });
      node.on("ready", () => this.#reasons.delete(made));
      // A node that was dropped for the map does not make the map be asked for again.
      node.on("close", () => this.#nodes.get(key) === made && this.refreshSoon());
      this.#nodes.set(key, node);
      node.connect().catch(() => undefined);
    }
    return node;
  }

  /** Looks up the owners of the slots again after a short pause. */
  refreshSoon(): void {
    if (this.#timer !== undefined || this.#closed) return;
    const pauseMs = this.#unaddressed.size > 0 ? UNADDRESSED_PAUSE_MS : REFRESH_PAUSE_MS;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      void this.refresh();
    }, pauseMs).unref();
  }

  refresh(): Promise<void> {
    this.#refreshing ??= this.#lookUp().finally(() => {
      this.#refreshing = undefined;
    });
    return this.#refreshing;
  }

  /**
   * Takes the first map in which each bucket has an owner. A node that was removed from the cluster
   * knows few slots or none, so that a map with gaps is taken only if no node has another.
   */
  async #lookUp(): Promise<void> {
    let widest: { readonly owners: readonly Owner[]; readonly from: Redis } | undefined;
    for (const from of this.#askable()) {
      try {
        if (from.status !== "ready") await whenReady(from);
        const owners = ownersIn(await sendProven(from, "cluster", ["slots"]));
        if (countOf(owners) > countOf(widest?.owners ?? [])) widest = { owners, from };
        if (owners.every(hasAddress)) break;
      } catch (error) {
        // The error event of a node that cannot be connected to has told the reason.
        if (from.status === "ready") this.#failure = toStoreFailure(error);
        else this.#failure ??= toStoreFailure(error);
      }
    }
    if (widest !== undefined) this.#adopt(widest.owners, widest.from);
    if (!widest?.owners.every(hasAddress)) this.refreshSoon();
  }

  /** The nodes that are connected, then those at the addresses, which are connected to only if they are asked. */
  *#askable(): Generator<Redis> {
    const connected = [...this.#nodes.values()].filter(({ status }) => status === "ready");
    yield* connected;
    for (const seed of this.#seeds) {
      const node = this.#node(seed);
      if (!connected.includes(node)) yield node;
    }
  }

  #adopt(owners: readonly Owner[], from: Redis): void {
    if (this.#closed) return;
    for (const [bucket, owner] of owners.entries()) {
      const host = owner?.host || String(from.options.host);
      this.#owners[bucket] = hasAddress(owner) ? this.#node({ ...owner, host }) : undefined;
    }
    const isUnaddressed = (bucket: number) => owners[bucket] && !hasAddress(owners[bucket]);
    this.#unaddressed = new Set([...owners.keys()].filter(isUnaddressed));
    for (const [key, node] of this.#nodes) {
      if (node === from || this.#owners.includes(node)) continue;
      this.#nodes.delete(key);
      node.disconnect();
    }
    this.#failure = undefined;
  }

  /** Cluster nodes pass published messages on to each other, so any node will do. */
  subscribe(channel: string, subscriber: Subscriber): { restart(): void } {
    let listener: Redis | undefined;
    const begin = async (): Promise<void> => {
      await this.refresh();
      if (this.#closed) return;
      const ready = [...this.#nodes.values()].filter(({ status }) => status === "ready");
      const node = ready[Math.floor(Math.random() * ready.length)];
      const { host, port } = node?.options ?? this.#seeds[0] ?? {};
      const next = new StrictRedis({
        ...atHost(this.#options, { host: String(host), port: Number(port) }),
        retryStrategy: null,
      });
      listener = next;
      this.#listeners.add(next);
      next.on("end", () => {
        this.#listeners.delete(next);
        if (!this.#closed) setTimeout(() => void begin(), REFRESH_PAUSE_MS).unref();
      });
      subscribeOn(next, [channel], subscriber);
    };
    void begin();
    return { restart: () => listener?.disconnect() };
  }

  /** Names the parts that are not connected, or the one with `asked`, and says of each why. */
  health(asked?: number): LinkHealth {
    const failures = this.parts().flatMap(({ node, buckets }) => {
      const bucket = buckets[0] as number;
      if (asked !== undefined && !buckets.includes(asked)) return [];
      const owner = this.#owners[bucket];
      if (owner?.status === "ready") return [];
      const why = owner ? this.whyNot(owner) : this.unowned(bucket);
      const failure = why ?? unreachableFailure(NOT_YET);
      return [this.#hasOwners ? failure.at(`buckets ${buckets.join(", ")} at ${node}`) : failure];
    });
    if (failures[0] === undefined) return { ok: true };
    const message = failures.map((failure) => failure.message).join("; ");
    return { ok: false, failure: new StoreFailure(failures[0].code, message, "no") };
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const node of [...this.#nodes.values(), ...this.#listeners]) node.disconnect();
  }
}

/** A host that is empty is that of the node that was asked. */
type Owner = HostPort | undefined;

/** The owner of each bucket, by the reply to CLUSTER SLOTS. */
function ownersIn(reply: unknown): Owner[] {
  const ranges = reply as [number, number, [string, number]][];
  return SLOTS.map((slot) => {
    const range = ranges.find(([first, last]) => first <= slot && slot <= last);
    return range && { host: range[2][0], port: range[2][1] };
  });
}

/** Port 0 is that of a node whose address the Cluster has lost, because another one answers there. */
function hasAddress(owner: Owner): owner is HostPort {
  return owner !== undefined && owner.port !== 0;
}

function countOf(owners: readonly Owner[]): number {
  return owners.filter(hasAddress).length;
}

export function addressOf({ options: { host, port } }: Redis): string {
  return formatHostPort({ host: String(host), port: Number(port) });
}

/** One wait for each node: many requests may wait for the same node and share its listeners. */
const WAITING = new WeakMap<Redis, Promise<void>>();

/** Resolves when the node is connected. Rejects with StoreFailure if the attempt fails. */
export function whenReady(node: Redis): Promise<void> {
  const waiting = WAITING.get(node);
  if (waiting !== undefined) return waiting;
  const ready = new Promise<void>((resolve, reject) => {
    const settle = () => {
      node.off("ready", settle).off("close", settle).off("end", settle);
      WAITING.delete(node);
      if (node.status === "ready") resolve();
      else reject(unreachableFailure(NODE_SILENT));
    };
    node.on("ready", settle).on("close", settle).on("end", settle);
  });
  WAITING.set(node, ready);
  return ready;
}
