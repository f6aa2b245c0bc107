import { randomUUID } from "node:crypto";
import { DAY_MS } from "../../../../core/quota/days.ts";
import { WINDOW_ROWS } from "../../../../core/quota/windows.ts";
import { defineTaggedScript, WRITE_WITHOUT_MEMORY } from "../../../redis/script.ts";
import { accountId, parseAccountId } from "../../account-ref.ts";
import type { AdminEvent, BanEvent, ResetWindow } from "../../admin-changes.ts";
import type { QuotaClient } from "../quota-client.ts";

/** Longer than any window, so that an audit finds its reset however late it is taken. */
const KEPT_MS = DAY_MS + Math.max(...WINDOW_ROWS.map(({ lengthMs }) => lengthMs));
/**
 * The bucket that has the number of the last message between gateways, the last messages, and the
 * changes that wait to be reported.
 */
export const EVENTS_BUCKET = 0;
const RECORDS_MAX = 10_000;
/** The field that counts the changes beyond those. Earlier versions skip it. */
const DROPPED = "dropped";

/**
 * KEYS: the records. ARGV: a name, its text, how long all are kept, how many, and the field that counts
 * further ones.
 */
const KEEP = defineTaggedScript(`
${WRITE_WITHOUT_MEMORY}
local count = redis.pcall('HLEN', KEYS[1])
if type(count) == 'table' and string.find(count.err, 'WRONGTYPE') then redis.call('DEL', KEYS[1]) end
if type(count) == 'number' and count >= tonumber(ARGV[4]) then
  redis.pcall('HINCRBY', KEYS[1], ARGV[5], 1)
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`);

/** KEYS: the records. Returns all of them and removes them. */
const TAKE = defineTaggedScript(`
local all = redis.call('HGETALL', KEYS[1])
if all[1] then redis.call('DEL', KEYS[1]) end
return all`);

/** `dropped` is the number of changes that were made while no further one could wait. */
export type TakenEvents = { readonly events: readonly AdminEvent[]; readonly dropped: number };

/**
 * Resets and bans that a command made in the store. They wait there until one gateway takes them,
 * so that exactly one log has each of them (docs/reference/events.md#other-lines). A record is
 * `[account, instant, what]`. The third item is a list of windows for a reset, an object for a ban
 * and null for a lifted ban. Earlier versions know only the list and skip the other two.
 */
export class PendingEvents {
  readonly #quotaClient: QuotaClient;
  /** The key of the hash that has the records. */
  readonly key: string;

  constructor(quotaClient: QuotaClient) {
    this.#quotaClient = quotaClient;
    this.key = `${quotaClient.prefix}:{${EVENTS_BUCKET}}:resets`;
  }

  /** Rejects if the store is unreachable. */
  async keep(event: AdminEvent): Promise<void> {
    const what = "windows" in event ? event.windows : (event.imposed ?? null);
    const text = JSON.stringify([accountId(event.accountRef), event.atMs, what]);
    await this.#quotaClient.run(KEEP, this.key, [
      ...[randomUUID(), text, KEPT_MS, RECORDS_MAX, DROPPED],
    ]);
  }

  /** Rejects if the store is unreachable. A record that cannot be read is left out. */
  async take(): Promise<TakenEvents> {
    const reply = (await this.#quotaClient.run(TAKE, this.key, [])) as string[];
    const events = reply.filter((_, i) => i % 2 === 1).flatMap(readEvent);
    const dropped = reply.find((_, i) => i % 2 === 1 && reply[i - 1] === DROPPED);
    return { events, dropped: Number(dropped ?? 0) };
  }
}

function readEvent(text: string): AdminEvent[] {
  try {
    const [id, atMs, what] = JSON.parse(text) as [unknown, unknown, unknown];
    if (typeof id !== "string" || !Number.isSafeInteger(atMs)) return [];
    const event = { accountRef: parseAccountId(id), atMs: atMs as number };
    if (what === null) return [{ ...event, imposed: undefined }];
    if (isImposed(what)) return [{ ...event, imposed: what }];
    return Array.isArray(what) && what.every(isWindow) ? [{ ...event, windows: what }] : [];
  } catch {
    return [];
  }
}

function isImposed(value: unknown): value is NonNullable<BanEvent["imposed"]> {
  const { untilMs, offences, window, plan, reason } = (value ?? {}) as Partial<
    NonNullable<BanEvent["imposed"]>
  >;
  const isText = [window, plan, reason].every((each) => typeof each === "string");
  return isText && Number.isSafeInteger(untilMs) && Number.isSafeInteger(offences);
}

function isWindow(value: unknown): value is ResetWindow {
  const { counter, units } = (value ?? {}) as Partial<ResetWindow>;
  return typeof counter === "string" && Number.isSafeInteger(units);
}
