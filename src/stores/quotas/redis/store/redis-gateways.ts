import type { GatewayNews } from "../../../../telemetry/gateway-status.ts";
import { defineTaggedScript } from "../../../redis/script.ts";
import { withTimeout } from "../../../redis/store-failure.ts";
import type { GatewayDirectory } from "../../quota-store.ts";
import type { QuotaClient } from "../quota-client.ts";

const LEAVE_LATE_MS = 500;
/** How long a gateway that was killed stays listed after its last message. */
const KEPT_MS = 600_000;

/**
 * KEYS: a hash by the name of a gateway, "at status". ARGV: the name, the status, and how long the
 * messages are kept. A new name drops the messages that are older. Without a new name their number
 * does not grow.
 */
const ANNOUNCE = defineTaggedScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('HSET', KEYS[1], ARGV[1], string.format('%.0f ', now) .. ARGV[2]) == 1 then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local at = tonumber(string.match(all[i + 1], '^(%d+) ') or 0)
    if now - at > tonumber(ARGV[3]) then redis.call('HDEL', KEYS[1], all[i]) end
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1`);

/** KEYS: the same hash. Returns the store's now, and the names with their messages. */
const LIST = defineTaggedScript(`
local time = redis.call('TIME')
return { time[1] * 1000 + math.floor(time[2] / 1000), redis.call('HGETALL', KEYS[1]) }`);

/** The messages of gateways in Redis, in the bucket of their heartbeats. */
export class RedisGateways implements GatewayDirectory {
  readonly #quotaClient: QuotaClient;
  readonly #key: string;

  constructor(quotaClient: QuotaClient) {
    this.#quotaClient = quotaClient;
    this.#key = `${quotaClient.prefix}:{0}:status`;
  }

  async announce(name: string, status: string): Promise<void> {
    await this.#quotaClient.run(ANNOUNCE, this.#key, [name, status, KEPT_MS]);
  }

  async withdraw(name: string): Promise<void> {
    const sent = this.#quotaClient.link.send(this.#key, "hdel", [this.#key, name]);
    await withTimeout(sent, LEAVE_LATE_MS).catch(() => undefined);
  }

  async list(): Promise<readonly GatewayNews[]> {
    const reply = await this.#quotaClient.run(LIST, this.#key, []);
    const [nowMs, pairs] = reply as [number, string[]];
    return pairs.flatMap((name, i) => {
      if (i % 2 === 1) return [];
      const message = pairs[i + 1] as string;
      const space = message.indexOf(" ");
      const ageMs = Math.max(0, nowMs - Number(message.slice(0, space)));
      return ageMs <= KEPT_MS ? [{ name, status: message.slice(space + 1), ageMs }] : [];
    });
  }
}
