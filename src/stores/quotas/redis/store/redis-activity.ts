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
 * KEYS: a hash by account, "requests last". ARGV: its life in ms, the most accounts, then account,
 * requests and last of each. Returns requests and last of each, 0 for an account beyond the most.
 */
const CALLED = defineTaggedScript(`
local out = {}
for i = 3, #ARGV, 3 do
  local text = redis.call('HGET', KEYS[1], ARGV[i])
  local requests, last = string.match(text or '', '^(%d+) (%d+)$')
  if requests or redis.call('HLEN', KEYS[1]) < tonumber(ARGV[2]) then
    requests = (tonumber(requests) or 0) + tonumber(ARGV[i + 1])
    last = math.max(tonumber(last) or 0, tonumber(ARGV[i + 2]))
    redis.call('HSET', KEYS[1], ARGV[i], string.format('%.0f %.0f', requests, last))
    out[#out + 1], out[#out + 2] = requests, last
  else
    out[#out + 1], out[#out + 2] = 0, 0
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
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
    const sums = new Map<DeprecatedCall, DeprecatedCall>();
    const left: DeprecatedCall[] = [];
    let hasFailed = false;
    for (const [key, all] of Map.groupBy(calls, (call) => this.#callsKey(call))) {
      for (const some of pagesOf(all, PAGE)) {
        if (hasFailed) {
          left.push(...some);
          continue;
        }
        try {
          for (const [call, sum] of await this.#call(key, some)) sums.set(call, sum);
        } catch (error) {
          hasFailed = true;
          // A call that may have run is not repeated.
          if (toStoreFailure(error).executed === "no") left.push(...some);
        }
      }
    }
    return { sums: calls.flatMap((call) => sums.get(call) ?? []), left };
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

  async callsBy(
    operation: DeprecatedOperation,
    accounts: readonly string[],
  ): Promise<readonly DeprecatedCall[]> {
    const found: DeprecatedCall[] = [];
    const key = this.#callsKey({ ...operation, account: "" });
    for (const some of pagesOf(accounts, PAGE)) {
      const texts = (await this.#quotaClient.ask("hmget", key, some)) as (string | null)[];
      for (const [i, account] of some.entries()) {
        found.push(...callIn(texts[i] ?? "", { ...operation, account }));
      }
    }
    return found;
  }

  /** Adds calls of one operation. Returns the sum of each account. */
  async #call(
    key: string,
    calls: readonly DeprecatedCall[],
  ): Promise<readonly (readonly [DeprecatedCall, DeprecatedCall])[]> {
    const each = calls.flatMap(({ account, requests, last }) => [account, requests, last]);
    const most = isAddressName(calls[0]?.account ?? "") ? ADDRESSES_MAX : CALLERS_MAX;
    const reply = (await this.#quotaClient.run(CALLED, key, [KEPT_MS, most, ...each])) as number[];
    return calls.map((call, i) => {
      const [requests = 0, last = 0] = [reply[2 * i], reply[2 * i + 1]];
      return [call, requests === 0 ? call : { ...call, requests, last }];
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

  /**
   * Client addresses are kept in a hash of their own, so that many of them cannot push out an
   * account.
   */
  #callsKey(call: DeprecatedOperation & Pick<DeprecatedCall, "account">): string {
    const { environment, method, route, account } = call;
    const name = isAddressName(account) ? "address-calls" : "calls";
    return `${this.#quotaClient.prefix}:{0}:${name} ${environment} ${method} ${route}`;
  }
}

function* pagesOf<T>(all: readonly T[], length: number): Generator<readonly T[]> {
  for (let from = 0; from < all.length; from += length) yield all.slice(from, from + length);
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
