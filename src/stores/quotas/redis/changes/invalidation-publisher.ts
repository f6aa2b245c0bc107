import { randomUUID } from "node:crypto";
import { type TellDenied, tellingDenied } from "../../../redis/denied-rights.ts";
import { defineTaggedScript, WRITE_WITHOUT_MEMORY } from "../../../redis/script.ts";
import { toReplyFailure, toStoreFailure } from "../../../redis/store-failure.ts";
import type { WindowTotal } from "../../count-corrections.ts";
import type { QuotaClient } from "../quota-client.ts";
import {
  banChangeOf,
  formatCounts,
  formatToldBan,
  formatToldReset,
  markerOf,
  PENDING,
  type ToldBan,
  type ToldReset,
} from "./invalidation-message.ts";
import { LOGGED_MAX, loggedIds } from "./message-log.ts";
import { EVENTS_BUCKET } from "./pending-events.ts";

/**
 * The pause between two messages about bans: a flood that earns thousands costs two commands a
 * second here, and each gateway that hears of it the reading of the bans that they name.
 */
const TELL_PAUSE_MS = 500;
/** The pause between two messages about counts that went down. */
const COUNTS_PAUSE_MS = 100;
/** The pause after a message that could not be sent. */
const AGAIN_PAUSE_MS = 1_000;
/** The most accounts that one message names. Further ones are named by the next one. */
const TOLD_MAX = 500;
/** If more accounts than this wait to be named, the message says "all", and tells no ban of them. */
const ALL_FROM = 10_000;

/**
 * Counts an event, logs it under its number and publishes it. KEYS: the number. ARGV: the channel,
 * the text, the log and its text, and the most texts that the log keeps. Returns the error of a user
 * who may not publish, or an empty text. The number by itself is enough for gateways to learn of the
 * event, within a second. Only after a number that went back is the log needed, so an error of it
 * fails nothing. A value that is no number is damage, and numbers begin again. If the event cannot be
 * counted, the last text of ARGV, if there is one, is published with the last number, and the error is
 * returned.
 */
const PUBLISH = defineTaggedScript(`
${WRITE_WITHOUT_MEMORY}
local version = redis.pcall('INCR', KEYS[1])
local why = type(version) == 'table' and version.err or ''
if string.find(why, 'integer') or string.find(why, 'overflow') or string.find(why, 'WRONGTYPE') then
  redis.call('DEL', KEYS[1])
  version = redis.call('INCR', KEYS[1])
elseif why ~= '' then
  local last = redis.pcall('GET', KEYS[1])
  if ARGV[6] and type(last) ~= 'table' then
    redis.pcall('PUBLISH', ARGV[1], string.format('%s %s', last or '0', ARGV[6]))
  end
  return version
end
redis.pcall('HSET', ARGV[3], string.format('%.0f', version), ARGV[4])
redis.pcall('HDEL', ARGV[3], string.format('%.0f', version - ARGV[5]))
local heard = redis.pcall('PUBLISH', ARGV[1], string.format('%.0f %s', version, ARGV[2]))
return type(heard) == 'table' and heard.err or ''`);

/** The way of invalidations: messages between gateways that a ban was earned or lifted, a key changed. */
export type InvalidationChannel = {
  readonly name: string;
  /**
   * Names this gateway, which ignores its own messages. A message is named "origin.number"; an earlier
   * version names the origin alone.
   */
  readonly origin: string;
  /** The key of the number of the last message, which is counted in the store. */
  readonly versionKey: string;
  readonly logKey: string;
};

export function createInvalidationChannel(prefix: string): InvalidationChannel {
  return {
    name: `${prefix}:events`,
    origin: randomUUID(),
    versionKey: `${prefix}:{${EVENTS_BUCKET}}:version`,
    logKey: `${prefix}:{${EVENTS_BUCKET}}:messages`,
  };
}

/** The change of an account that a message tells: a ban, a lift, or a reset of meters. */
export type ToldChange = ToldBan | ToldReset;
/** `isPending`: the change waits in the store for one gateway to report. */
type PublishOptions = { readonly told?: ToldChange | undefined; readonly isPending?: boolean };

/** Sends the messages of this gateway to the others. */
export class InvalidationPublisher {
  readonly #quotaClient: QuotaClient;
  readonly #tellDenied: TellDenied;
  readonly #channel: InvalidationChannel;
  #sent = 0;
  /** The accounts to be named soon, and others of which only the ban has changed, with it. */
  readonly #told = { changed: new Set<string>(), banned: new Set<string>() };
  #pause: NodeJS.Timeout | undefined;
  readonly #counts = new Map<string, string>();
  #countsPause: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(quotaClient: QuotaClient, tellDenied: TellDenied, channel: InvalidationChannel) {
    this.#quotaClient = quotaClient;
    this.#tellDenied = tellDenied;
    this.#channel = channel;
  }

  /**
   * Tells all other gateways immediately; `told` is a ban of the account if nothing but that has
   * changed. Otherwise its ban has not. Rejects if the store cannot be reached.
   */
  publish(id: string, { told, isPending = false }: PublishOptions = {}): Promise<void> {
    const uncounted = isBan(told)
      ? `${formatToldBan(told)} ${markerOf(banChangeOf(told))}`
      : `${wordsOf(id, told)} ${markerOf("kept")}`;
    // Uncounted, the change keeps waiting: the gateway that takes it tells the others again.
    return this.#send(isPending ? `${uncounted} ${PENDING}` : uncounted, uncounted);
  }

  /** `uncounted` is published if the store cannot count the message, which rejects all the same. */
  async #send(what: string, uncounted?: string): Promise<void> {
    const { name, origin, versionKey, logKey } = this.#channel;
    const message = `${origin}.${++this.#sent}`;
    const logged = `${message} ${loggedIds(what)}`;
    const args = [name, `${message} ${what}`, logKey, logged, LOGGED_MAX];
    if (uncounted !== undefined) args.push(`${message} ${uncounted}`);
    const command = `INCR ${versionKey}`;
    const reply = this.#quotaClient.run(PUBLISH, versionKey, args);
    const told = tellingDenied(this.#tellDenied, command, reply);
    const refusal = String(
      await told.catch((error: unknown) => {
        throw toStoreFailure(error).at(command);
      }),
    );
    this.#tellDenied(`PUBLISH ${name}`, refusal === "" ? undefined : toReplyFailure(refusal));
  }

  /** The same soon: immediately, or together with other accounts if there are many. */
  publishSoon(id: string, told?: ToldChange): void {
    if (isBan(told)) this.#told.banned.add(formatToldBan(told));
    else this.#told.changed.add(wordsOf(id, told));
    if (this.#pause === undefined) this.#sendSome();
  }

  /** Tells them the counts of an account that went down, at most once per 100 ms. */
  tellCounts(id: string, totals: readonly WindowTotal[], nowMs: number): void {
    this.#counts.set(id, formatCounts(id, totals, nowMs));
    if (this.#countsPause === undefined) this.#sendCounts();
  }

  close(): void {
    this.#closed = true;
    clearTimeout(this.#pause);
    clearTimeout(this.#countsPause);
  }

  /** Sends the counts that gathered during the pause: the latest of each account. */
  #sendCounts(): void {
    this.#countsPause = undefined;
    if (this.#counts.size === 0) return;
    const what = [...this.#counts].slice(0, TOLD_MAX);
    for (const [id] of what) this.#counts.delete(id);
    this.#countsPause = setTimeout(() => this.#sendCounts(), COUNTS_PAUSE_MS).unref();
    this.#send(what.flat().join(" ")).catch(() => this.#keepCounts(what));
  }

  /**
   * Keeps counts to be sent again: a gateway that refuses from memory asks the store for nothing
   * until the window is over. Beyond a bound only the accounts are kept.
   */
  #keepCounts(unsent: readonly (readonly [string, string])[]): void {
    if (this.#closed) return;
    for (const [id, text] of unsent) {
      if (this.#counts.size >= ALL_FROM) this.publishSoon(id);
      else if (!this.#counts.has(id)) this.#counts.set(id, text);
    }
    clearTimeout(this.#countsPause);
    this.#countsPause = setTimeout(() => this.#sendCounts(), AGAIN_PAUSE_MS).unref();
  }

  /** Sends some of the messages that gathered during the pause. */
  #sendSome(): void {
    this.#pause = undefined;
    const { changed, banned } = this.#told;
    const count = changed.size + banned.size;
    if (count === 0) return;
    this.#pause = setTimeout(() => this.#sendSome(), TELL_PAUSE_MS).unref();
    const most = count > ALL_FROM ? ALL_FROM + 1 : TOLD_MAX;
    const [some, bans] = [taken(changed, most), taken(banned, most)];
    const keep = () => this.#keep(some, bans);
    if (count > ALL_FROM) {
      changed.clear();
      banned.clear();
      this.#send("*").catch(keep);
    } else {
      if (some.length > 0) this.#send([...some, markerOf("kept")].join(" ")).catch(keep);
      if (bans.length > 0) this.#send([...bans, markerOf("banned")].join(" ")).catch(keep);
    }
  }

  /** Keeps accounts to be named again. More than can wait are enough to say "all". */
  #keep(changed: readonly string[], banned: readonly string[]): void {
    if (this.#closed) return;
    for (const id of changed) this.#told.changed.add(id);
    for (const id of banned) this.#told.banned.add(id);
    clearTimeout(this.#pause);
    this.#pause = setTimeout(() => this.#sendSome(), AGAIN_PAUSE_MS).unref();
  }
}

function isBan(told: ToldChange | undefined): told is ToldBan {
  return told !== undefined && "ban" in told;
}

function wordsOf(id: string, toldReset: ToldReset | undefined): string {
  return toldReset === undefined ? id : formatToldReset(toldReset);
}

/** Takes up to so many out of the set, the first ones. */
function taken(ids: Set<string>, most: number): readonly string[] {
  const some = [...ids].slice(0, most);
  for (const id of some) ids.delete(id);
  return some;
}
