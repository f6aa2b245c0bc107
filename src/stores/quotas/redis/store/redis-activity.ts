import { isAddressName } from "../../../../core/keys/records.ts";
import { DAY_MS } from "../../../../core/quota/days.ts";
import {
  ADDRESSES_MAX,
  CALLERS_MAX,
  type DeprecatedCall,
  type DeprecatedOperation,
} from "../../../../telemetry/history/deprecated-calls.ts";
import { type TellDenied, tellingDenied } from "../../../redis/denied-rights.ts";
import { defineTaggedScript } from "../../../redis/script.ts";
import { toStoreFailure, withTimeout } from "../../../redis/store-failure.ts";
import { bucketOf } from "../../account-ref.ts";
import type { ActivityStore, AddedCalls, KeyUse, RefusalCount } from "../../activity-store.ts";
import { CALL_ACCOUNTS_MAX } from "../../batch/call-queue.ts";
import { accountScript } from "../account-scripts.ts";
import { type QuotaClient, REPLY_LATE_MS } from "../quota-client.ts";

/** Keys or accounts in one command. */
const PAGE = 1_000;
/** Keys and operations that were unused for this long are forgotten. */
const KEPT_MS = 400 * DAY_MS;

const REFUSED = accountScript("history", "refused");

/** KEYS: a hash of days by the id of a key. ARGV: its life in ms, then id and day of each. */
const USED = defineTaggedScript(`
for i = 2, #ARGV, 2 do
  local known = tonumber(redis.call('HGET', KEYS[1], ARGV[i])) or 0
  if tonumber(ARGV[i + 1]) > known then redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1`);

/**
 * KEYS: hashes by account, "requests last", of one slot. ARGV: their life in ms, the most accounts of
 * each, then the number of the hash, account, requests and last of each call; 0 requests only ask.
 * Returns requests and last of each, 0 for an account that is not there.
 */
const CALLED = defineTaggedScript(`
local out, changed = {}, {}
for i = #KEYS + 2, #ARGV, 4 do
  local hash, account, added = tonumber(ARGV[i]), ARGV[i + 1], tonumber(ARGV[i + 2])
  local text = redis.call('HGET', KEYS[hash], account)
  local requests, last = string.match(text or '', '^(%d+) (%d+)$')
  if added > 0 and (requests or redis.call('HLEN', KEYS[hash]) < tonumber(ARGV[hash + 1])) then
    requests = (tonumber(requests) or 0) + added
    last = math.max(tonumber(last) or 0, tonumber(ARGV[i + 3]))
    redis.call('HSET', KEYS[hash], account, string.format('%.0f %.0f', requests, last))
    changed[hash] = true
  end
  out[#out + 1], out[#out + 2] = tonumber(requests) or 0, tonumber(last) or 0
end
for hash in pairs(changed) do redis.call('PEXPIRE', KEYS[hash], ARGV[1]) end
return out`);

/** The notes of gateways in Redis (docs/reference/history.md#notes). */
export class RedisActivity implements ActivityStore {
  readonly #quotaClient: QuotaClient;
  readonly #tellDenied: TellDenied;

  constructor(quotaClient: QuotaClient, tellDenied: TellDenied) {
    this.#quotaClient = quotaClient;
    this.#tellDenied = tellDenied;
  }

  async addRefused(refused: readonly RefusalCount[]): Promise<readonly RefusalCount[]> {
    const { historyMs, link } = this.#quotaClient;
    if (historyMs === undefined) return [];
    const groups = Map.groupBy(refused, ({ accountRef }) =>
      link.clustered ? bucketOf(accountRef) : 0,
    );
    const left: RefusalCount[] = [];
    for (const group of groups.values()) {
      for (const some of pagesOf(group, CALL_ACCOUNTS_MAX)) {
        // A call that may have run is not repeated.
        await this.#refuse(some, historyMs).catch((error: unknown) => {
          if (toStoreFailure(error).executed === "no") left.push(...some);
        });
      }
    }
    return left;
  }

  async addUsed(used: readonly KeyUse[]): Promise<void> {
    for (const some of pagesOf(used, PAGE)) {
      const argv = [KEPT_MS, ...some.flatMap(({ key, day }) => [key, day])];
      await this.#quotaClient.run(USED, this.#usedKey, argv);
    }
  }

  async addCalls(calls: readonly DeprecatedCall[]): Promise<AddedCalls> {
    const sums: DeprecatedCall[] = [];
    const left: DeprecatedCall[] = [];
    let hasFailed = false;
    for (const some of pagesOf(calls, PAGE, ({ account }) => account)) {
      if (hasFailed) {
        left.push(...some);
        continue;
      }
      try {
        sums.push(...(await this.#call(some)));
      } catch (error) {
        hasFailed = true;
        // A call that may have run is not repeated.
        if (toStoreFailure(error).executed === "no") left.push(...some);
      }
    }
    return { sums, left };
  }

  async lastUsed(keys: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const found = new Map<string, number>();
    for (const some of pagesOf(keys, PAGE)) {
      const reply = await this.#quotaClient.ask("hmget", this.#usedKey, some);
      const days = reply as (string | null)[];
      some.forEach((key, i) => {
        const day = Number(days[i] ?? Number.NaN);
        if (Number.isSafeInteger(day)) found.set(key, day);
      });
    }
    return found;
  }

  async calls(operations: readonly DeprecatedOperation[]): Promise<readonly DeprecatedCall[]> {
    const found: DeprecatedCall[] = [];
    for (const { environment, method, route } of operations) {
      for (const account of ["", "addr:"]) {
        const key = this.#callsKey({ environment, method, route, account });
        const reply = await this.#quotaClient.ask("hgetall", key);
        // The client library turns the list that Redis sends into an object.
        for (const [caller, text] of Object.entries(reply as Record<string, string>)) {
          found.push(...callIn(text, { environment, method, route, account: caller }));
        }
      }
    }
    return found;
  }

  /** Adds calls by one command, because their hashes share a slot. Returns the sum of each. */
  async #call(calls: readonly DeprecatedCall[]): Promise<readonly DeprecatedCall[]> {
    const hashes = new Map<string, { readonly number: number; readonly most: number }>();
    const each = calls.flatMap((call) => {
      const { account, requests, last } = call;
      const key = this.#callsKey(call);
      const most = isAddressName(account) ? ADDRESSES_MAX : CALLERS_MAX;
      const hash = hashes.get(key) ?? { number: hashes.size + 1, most };
      hashes.set(key, hash);
      return [hash.number, account, requests, last];
    });
    const most = [...hashes.values()].map((hash) => hash.most);
    const args = [KEPT_MS, ...most, ...each];
    const reply = (await this.#quotaClient.run(CALLED, [...hashes.keys()], args)) as number[];
    return calls.map((call, i) => {
      const [requests = 0, last = 0] = [reply[2 * i], reply[2 * i + 1]];
      return requests === 0 ? call : { ...call, requests, last };
    });
  }

  async #refuse(some: readonly RefusalCount[], historyMs: number): Promise<void> {
    const keys = some.map(({ accountRef }) => this.#quotaClient.keyOf(accountRef));
    const texts = some.map(({ day, requests }) => `${day} ${requests}`);
    const giveUpMs = performance.now() + REPLY_LATE_MS;
    const run = this.#quotaClient.runOnAccounts(REFUSED, keys, [historyMs, ...texts], giveUpMs);
    const what = `HINCRBY ${this.#quotaClient.prefix}:*`;
    await tellingDenied(this.#tellDenied, what, withTimeout(run, REPLY_LATE_MS));
  }

  get #usedKey(): string {
    return `${this.#quotaClient.prefix}:{0}:used`;
  }

  /** Client addresses have a hash of their own, so that many of them push out no account. */
  #callsKey(call: DeprecatedOperation & Pick<DeprecatedCall, "account">): string {
    const { environment, method, route, account } = call;
    const name = isAddressName(account) ? "address-calls" : "calls";
    return `${this.#quotaClient.prefix}:{0}:${name} ${environment} ${method} ${route}`;
  }
}

/** Pages of this length, or longer where neighbours with the same name would be parted. */
function* pagesOf<T>(
  all: readonly T[],
  length: number,
  nameOf: (one: T) => unknown = (one) => one,
): Generator<readonly T[]> {
  for (let from = 0, to = length; from < all.length; from = to, to += length) {
    while (to < all.length && nameOf(all[to - 1] as T) === nameOf(all[to] as T)) to += 1;
    yield all.slice(from, to);
  }
}

/** The call that a field of the hash tells; empty if it tells none. */
function callIn(
  text: string,
  caller: DeprecatedOperation & Pick<DeprecatedCall, "account">,
): DeprecatedCall[] {
  const [requests = 0, last = Number.NaN] = text.split(" ").map(Number);
  const isCall = Number.isSafeInteger(requests) && Number.isSafeInteger(last);
  return isCall ? [{ ...caller, requests, last }] : [];
}
