import { hash, randomUUID } from "node:crypto";
import { BUCKET_COUNT, crc16 } from "../../../redis/hash-slots.ts";
import { defineTaggedScript } from "../../../redis/script.ts";
import type { RepeatableChange } from "../../quota-store.ts";
import type { QuotaClient } from "../quota-client.ts";

/** This many digits of a digest are 80 bits, so no two markers collide. */
const NAME_DIGITS = 20;

/**
 * Sets a marker unless another gateway has set it for the same change, or for a later one. KEYS: the
 * marker. ARGV: this gateway, the life in ms, how many ms ago it saw the change, and how many ms after
 * the instant of the marker a change is a new one. Ages are sent, not instants, because the clocks of
 * gateways differ. Returns 1 if the marker is this gateway's.
 */
const MARK = defineTaggedScript(`
local time = redis.call('TIME')
local seen = time[1] * 1000 + math.floor(time[2] / 1000) - ARGV[3]
local set = redis.call('HMGET', KEYS[1], 'by', 'seen')
local isNew = not set[1] or set[2] and seen >= set[2] + ARGV[4]
if not isNew and set[1] ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'by', ARGV[1], 'seen', string.format('%.0f', seen))
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`);

/** Marks in the store by which one of all gateways does what is to be done once. */
export class Markers {
  readonly #quotaClient: QuotaClient;
  /** Names this gateway in its markers. */
  readonly #origin = randomUUID();

  constructor(quotaClient: QuotaClient) {
    this.#quotaClient = quotaClient;
  }

  /** See QuotaStore.markFirst. */
  async markFirst(marker: string, lifeMs: number, change?: RepeatableChange): Promise<boolean> {
    const name = hash("sha256", marker, "hex").slice(0, NAME_DIGITS);
    const key = `${this.#quotaClient.prefix}:{${crc16(name) % BUCKET_COUNT}}:told.${name}`;
    const { ageMs, sameMs } = change ?? { ageMs: 0, sameMs: Number.MAX_SAFE_INTEGER };
    const times = [lifeMs, ageMs, sameMs].map(Math.ceil);
    return (await this.#quotaClient.run(MARK, key, [this.#origin, ...times])) === 1;
  }
}
