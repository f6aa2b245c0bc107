import { setTimeout as pause } from "node:timers/promises";
import { connect as connectTls } from "node:tls";
import { AbstractConnector, type Redis } from "ioredis";
import type { RedisUrl } from "../../../config/schema/addresses.ts";
import { openDirectSocket } from "../connection/direct-socket.ts";
import { StrictRedis } from "../connection/strict-redis.ts";
import type { LinkOptions } from "../link.ts";
import { type StoreFailure, unreachableFailure } from "../store-failure.ts";
import { settledMaster } from "./sentinel-majority.ts";
import { Sentinels } from "./sentinels.ts";

const RETRY_MS = 100;
/** How long to wait at most for replies of a master that is being left. */
const LEAVE_MS = 100;
/** How long to wait for a failover. Once decided, it takes one to two seconds. */
const FAILOVER_MS = 8_000;

/**
 * The route to the master that most of the Sentinels name. A connection to any other node is
 * closed, and nothing is sent on it any more. That holds when another master is named, and already
 * when a replica is chosen to be the next master, which is before that replica stops following the
 * old one (docs/operations.md#engines).
 */
export class SentinelRoute {
  readonly #options: LinkOptions;
  readonly #sentinels: Sentinels;
  /** The address that each connection leads to, as the Sentinels wrote it. */
  readonly #places = new Map<Redis, Place>();

  constructor({ hosts, master: name, ...login }: RedisUrl, options: LinkOptions) {
    this.#options = options;
    const onChange = () => this.#leave();
    this.#sentinels = new Sentinels({ hosts, name, login, link: options, onChange });
  }

  /** A connection that is not open yet. It leads to another node after each failover. */
  open(): StrictRedis {
    const place: Place = { address: undefined };
    const connector = () => new MasterConnector(this.#sentinels, this.#options, place);
    const redis = new StrictRedis({
      ...this.#options,
      Connector: function Connector() {
        return connector();
      } as unknown as NonNullable<LinkOptions["Connector"]>,
    });
    this.#places.set(redis, place);
    return redis;
  }

  /** Why nothing may be sent on this connection; undefined if it may be used. */
  refusal(redis: Redis): StoreFailure | undefined {
    const { master, promoted, split } = this.#sentinels.majority;
    if (this.#sentinels.isBehind)
      return unreachableFailure("no word of the Sentinels for a second");
    const place = this.#places.get(redis);
    const isLeft = master !== undefined && master !== place?.address;
    if (!isLeft && promoted === undefined) return undefined;
    return unreachableFailure(split ?? `the Sentinels name ${master} the master`);
  }

  /** Why there may be more than one master, or none; undefined if there is one. */
  split(): string | undefined {
    return this.#sentinels.majority.split;
  }

  /**
   * The master that most of the Sentinels name when asked now. Waits for the end of a failover.
   * Rejects with StoreFailure if most of them name none.
   */
  async master(): Promise<string> {
    const endMs = performance.now() + FAILOVER_MS;
    for (;;) {
      const majority = await this.#sentinels.ask();
      const master = settledMaster(majority);
      if (master !== undefined) return master;
      if (performance.now() > endMs || majority.promoted === undefined) {
        throw unreachableFailure(majority.split ?? "the Sentinels name no master");
      }
      await pause(RETRY_MS);
    }
  }

  close(): void {
    this.#sentinels.close();
  }

  #leave(): void {
    const master = settledMaster(this.#sentinels.majority);
    if (master === undefined) return;
    for (const [redis, { address }] of this.#places) {
      if (address !== undefined && address !== master) redis.disconnect(true);
    }
  }
}

type Place = { address: string | undefined };
type TellError = (type: "error", error: Error) => void;

/** Connects to the named master. ioredis stops trying after an attempt that rejects. */
class MasterConnector extends AbstractConnector {
  readonly #sentinels: Sentinels;
  readonly #options: LinkOptions;
  readonly #place: Place;
  #tell: TellError = () => undefined;

  constructor(sentinels: Sentinels, options: LinkOptions, place: Place) {
    super(LEAVE_MS);
    this.#sentinels = sentinels;
    this.#options = options;
    this.#place = place;
  }

  override async connect(tell: TellError) {
    this.connecting = true;
    this.#tell = tell;
    this.#place.address = undefined;
    const address = await this.#master();
    const at = toHostPort(address);
    const { tls } = this.#options;
    this.#place.address = address;
    const stream = tls === undefined ? openDirectSocket(at) : connectTls({ ...tls, ...at });
    stream.once("error", (error) => {
      this.firstError = error;
    });
    this.stream = stream;
    return stream;
  }

  /**
   * Refuses a node that is a replica, because it is not the master that the Sentinels mean, or not
   * yet. The connection is tried again.
   */
  override check({ role }: { readonly role?: string }): boolean {
    if (role === undefined || role === "master") return true;
    const why = `${this.#place.address} is named the master, and says that it is a replica`;
    this.#tell("error", unreachableFailure(why));
    return false;
  }

  async #master(): Promise<string> {
    for (;;) {
      await this.#sentinels.askUntil((majority) => settledMaster(majority) !== undefined);
      if (this.#sentinels.isClosed) throw new Error("Connection is closed.");
      const { majority } = this.#sentinels;
      const master = settledMaster(majority);
      if (master !== undefined) return master;
      if (majority.master === undefined) {
        const why = majority.split ?? "no master is named";
        this.#tell("error", this.#sentinels.failure ?? unreachableFailure(why));
      }
      await pause(RETRY_MS, undefined, { ref: false });
    }
  }
}

/** The address that `formatHostPort` made. */
function toHostPort(address: string) {
  const colon = address.lastIndexOf(":");
  const host = address.slice(0, colon).replace(/^\[(.*)\]$/, "$1");
  return { host, port: Number(address.slice(colon + 1)) };
}
