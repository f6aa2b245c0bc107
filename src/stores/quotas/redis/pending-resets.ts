import { randomUUID } from "node:crypto";
import { DAY_MS } from "../../../core/quota/days.ts";
import { WINDOW_ROWS } from "../../../core/quota/windows.ts";
import { defineScript } from "../../redis/script.ts";
import { withTimeout } from "../../redis/store-failure.ts";
import { accountId, parseAccountId, type ResetEvent, type ResetWindow } from "../quota-store.ts";
import type { QuotaClient } from "./quota-client.ts";

const LATE_MS = 2_000;
/** Longer than any window: an audit of it finds the reset, whenever a gateway comes by. */
const KEPT_MS = DAY_MS + Math.max(...WINDOW_ROWS.map(({ lengthMs }) => lengthMs));
const RECORDS_MAX = 10_000;

/** KEYS: the records. ARGV: a name for this one, its text, how long all are kept, how many at most. */
const KEEP = defineScript(`
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[4]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`);

/** KEYS: the records. Gives all of them, once. */
const TAKE = defineScript(`
local all = redis.call('HGETALL', KEYS[1])
if all[1] then redis.call('DEL', KEYS[1]) end
return all`);

/**
 * Resets that a command made in the store. They wait there until a gateway takes them: one gateway
 * alone, so that its log tells each of them once (docs/reference/events.md#other-lines).
 */
export class PendingResets {
  readonly #shared: QuotaClient;
  readonly #key: string;

  constructor(shared: QuotaClient, prefix: string) {
    this.#shared = shared;
    this.#key = `${prefix}:{0}:resets`;
  }

  /** Rejects when the store is away. */
  async keep({ name, atMs, windows }: ResetEvent): Promise<void> {
    const text = JSON.stringify([accountId(name), atMs, windows]);
    const run = this.#shared.run(KEEP, this.#key, [randomUUID(), text, KEPT_MS, RECORDS_MAX]);
    await withTimeout(run, LATE_MS);
  }

  /** Rejects when the store is away. A record that cannot be read is left out. */
  async take(): Promise<readonly ResetEvent[]> {
    const reply = (await withTimeout(this.#shared.run(TAKE, this.#key, []), LATE_MS)) as string[];
    return reply.filter((_, i) => i % 2 === 1).flatMap(readReset);
  }
}

function readReset(text: string): ResetEvent[] {
  try {
    const [id, atMs, windows] = JSON.parse(text) as [unknown, unknown, unknown];
    if (typeof id !== "string" || !Number.isSafeInteger(atMs) || !Array.isArray(windows)) return [];
    if (!windows.every(isWindow)) return [];
    return [{ name: parseAccountId(id), atMs: atMs as number, windows }];
  } catch {
    return [];
  }
}

function isWindow(value: unknown): value is ResetWindow {
  const { counter, units } = (value ?? {}) as Partial<ResetWindow>;
  return typeof counter === "string" && Number.isSafeInteger(units);
}
