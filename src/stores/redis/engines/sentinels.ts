import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { formatHostPort, type HostPort } from "../../../core/address.ts";
import { endConnection } from "../connection/unasked-replies.ts";
import { atHost, type LinkOptions, sendOn, subscribeOn } from "../link.ts";
import {
  type StoreFailure,
  toCommandFailure,
  toStoreFailure,
  unreachableBy,
  unreadableFailure,
  withTimeout,
} from "../store-failure.ts";
import { SentinelClient, type SentinelLogin } from "./sentinel-client.ts";
import { findMajority, type SentinelAnswer, type SentinelMajority } from "./sentinel-majority.ts";

export type SentinelsOptions = {
  readonly hosts: readonly HostPort[];
  /** The Sentinels' name for the master. */
  readonly name: string;
  readonly login: SentinelLogin;
  /** Options of a connection to Redis: the Sentinels are reached with the same TLS, if any. */
  readonly link: LinkOptions;
  /** Called when the combined answers have changed. */
  readonly onChange: () => void;
};

type MajorityWaiter = {
  readonly isFound: (majority: SentinelMajority) => boolean;
  readonly resolve: () => void;
};

/**
 * A failover takes a few steps of a tenth of a second each, so its events alone are not relied on.
 */
const ASK_MS = 300;
const ANSWER_LATE_MS = 600;
/** Each Sentinel answers or fails within less than this, unless this process stood still. */
const SILENT_MS = 1_200;
/** The events of a failover that come before a replica stops following, and the one at its end. */
const EVENTS = ["+selected-slave", "+failover-state-send-slaveof-noone", "+switch-master"];

/**
 * Watches every Sentinel of the address. Asks each for the master several times a second, and at
 * once if one reports a failover. During a planned failover the old master accepts writes for ten
 * seconds more, and only the Sentinels know that those are lost.
 */
export class Sentinels {
  readonly #watched: readonly WatchedSentinel[];
  readonly #name: string;
  readonly #onChange: () => void;
  readonly #awaiting = new Set<MajorityWaiter>();
  isClosed = false;
  #majority: SentinelMajority;
  #text = "";
  #countedMs = performance.now();

  constructor({ hosts, name, login, link, onChange }: SentinelsOptions) {
    this.#name = name;
    this.#onChange = onChange;
    const onAnswer = () => this.#count();
    this.#watched = hosts.map((host) => {
      const open = () => new SentinelClient(atHost(link, host), login);
      return new WatchedSentinel(open, `Sentinel ${formatHostPort(host)}`, name, onAnswer);
    });
    this.#majority = this.#findMajority();
  }

  get majority(): SentinelMajority {
    return this.#majority;
  }

  /** Whether this process stood still and has not heard since then from the Sentinels. */
  get isBehind(): boolean {
    return performance.now() - this.#countedMs > SILENT_MS;
  }

  /**
   * Why the first Sentinel that failed did not answer. One that refuses is named, and where others
   * answer, but fewer than most, that is said before: Redis itself may be well.
   */
  get failure(): StoreFailure | undefined {
    const failed = this.#watched.find(({ failure: why }) => why !== undefined);
    const { failure, place = "" } = failed ?? {};
    if (failure?.code !== "unreachable") return failure?.at(place);
    const { split } = this.#majority;
    if (split === undefined || this.#watched.every(({ answer }) => answer === undefined))
      return failure;
    return unreachableBy(`${split} (${place})`, failure);
  }

  /** Asks all now. Settles when each has answered or failed. */
  async ask(): Promise<SentinelMajority> {
    await Promise.all(this.#watched.map((sentinel) => sentinel.ask()));
    return this.#majority;
  }

  /** Like `ask`, but settles as soon as the combined answers pass `isFound`. */
  async askUntil(isFound: (majority: SentinelMajority) => boolean): Promise<void> {
    if (isFound(this.#majority)) return;
    const found = new Promise<void>((resolve) => this.#awaiting.add({ isFound, resolve }));
    await Promise.race([found, this.ask()]);
    for (const each of this.#awaiting) if (each.isFound === isFound) this.#awaiting.delete(each);
  }

  close(): void {
    this.isClosed = true;
    for (const sentinel of this.#watched) sentinel.close();
    for (const { resolve } of this.#awaiting) resolve();
  }

  #findMajority(): SentinelMajority {
    return findMajority(
      this.#watched.map(({ answer }) => answer),
      this.#name,
    );
  }

  #count(): void {
    this.#countedMs = performance.now();
    this.#majority = this.#findMajority();
    const text = JSON.stringify(this.#majority);
    if (text === this.#text) return;
    this.#text = text;
    this.#onChange();
    for (const { isFound, resolve } of this.#awaiting) if (isFound(this.#majority)) resolve();
  }
}

class WatchedSentinel {
  readonly place: string;
  readonly #name: string;
  readonly #onAnswer: () => void;
  readonly #asked: Redis;
  readonly #heard: Redis;
  answer: SentinelAnswer | undefined;
  failure: StoreFailure | undefined;
  #timer: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(open: () => Redis, place: string, name: string, onAnswer: () => void) {
    this.place = place;
    this.#name = name;
    this.#onAnswer = onAnswer;
    this.#asked = open();
    this.#heard = open();
    for (const redis of [this.#asked, this.#heard]) {
      redis.on("error", (error) => {
        this.failure = toStoreFailure(error);
      });
    }
    this.#asked.connect().catch(() => undefined);
    this.#asked.on("ready", () => void this.ask());
    this.#asked.on("close", () => this.#take(undefined));
    // A Sentinel that cannot be heard is asked all the same.
    const nothing = () => undefined;
    const message = () => void this.ask();
    subscribeOn(this.#heard, EVENTS, { message, up: nothing, refused: nothing });
    this.#askLater();
  }

  /** Never rejects. */
  async ask(): Promise<void> {
    try {
      this.#take(await withTimeout(this.#read(), ANSWER_LATE_MS));
      this.failure = undefined;
    } catch (error) {
      this.failure = toCommandFailure(error, this.failure);
      this.#take(undefined);
    }
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    for (const redis of [this.#asked, this.#heard]) redis.disconnect();
  }

  async #read(): Promise<SentinelAnswer> {
    if (this.#asked.status === "connecting" || this.#asked.status === "connect") {
      await untilSettled(this.#asked);
    }
    const ask = (what: string) => sendOn(this.#asked, "sentinel", [what, this.#name]);
    const word = randomUUID();
    // On one connection, one after the other, so that the replicas are not older than the master.
    const [master, replicas, told] = await Promise.all([
      ask("get-master-addr-by-name"),
      // A user of the Sentinel may lack the right to ask. The end of a failover is noticed anyway.
      ask("replicas").catch((error) => (error.name === "ReplyError" ? [] : Promise.reject(error))),
      // Shows that these are not the replies of other commands (docs/reference/store.md#replies).
      sendOn(this.#asked, "ping", [word]).catch((error) =>
        error.name === "ReplyError" ? word : Promise.reject(error),
      ),
    ]);
    if (told !== word) {
      endConnection(this.#asked.stream);
      throw unreadableFailure("it is that of another command");
    }
    if (!Array.isArray(master)) return { master: undefined };
    const promoted = (replicas as readonly (readonly string[])[]).find((replica) => {
      return replicaMember(replica, "flags").split(",").includes("promoted");
    });
    return {
      master: toAddress(master[0], master[1]),
      promoted: promoted && addressOfReplica(promoted),
    };
  }

  #take(answer: SentinelAnswer | undefined): void {
    if (this.#closed) return;
    this.answer = answer;
    this.#onAnswer();
  }

  #askLater(): void {
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      void this.ask().finally(() => this.#askLater());
    }, ASK_MS).unref();
  }
}

/** Waits until a connection that is being made is ready or closed. */
function untilSettled(redis: Redis): Promise<void> {
  return new Promise((resolve) => {
    const settle = () => {
      redis.off("ready", settle).off("close", settle);
      resolve();
    };
    redis.on("ready", settle).on("close", settle);
  });
}

/** SENTINEL REPLICAS lists each replica as names and values. */
export function replicaMember(replica: readonly string[], name: string): string {
  const at = replica.findIndex((text, i) => i % 2 === 0 && text === name);
  return String(replica[at + 1]);
}

export function addressOfReplica(replica: readonly string[]): string {
  return toAddress(replicaMember(replica, "ip"), replicaMember(replica, "port"));
}

/** The address as a Sentinel writes it, as `host:port`. */
export function toAddress(host: unknown, port: unknown): string {
  return formatHostPort({ host: String(host), port: Number(port) });
}
