import { randomUUID } from "node:crypto";
import { DAY_MS, lastClosedDay } from "../../../../core/quota/days.ts";
import { defineTaggedScript } from "../../../redis/script.ts";
import { withTimeout } from "../../../redis/store-failure.ts";
import { type AccountRef, accountId, bucketOf } from "../../account-ref.ts";
import type { AcknowledgedUsage, UsageMark, UsageMarks } from "../../usage-marks.ts";
import { accountScript } from "../account-scripts.ts";
import { type QuotaClient, REPLY_LATE_MS } from "../quota-client.ts";

/** Marks in one command. */
const PAGE = 1_000;
/** A month of history is kept up to a month longer than its days; no mark may leave before it. */
const SPARE_MS = 62 * DAY_MS;

const READ = accountScript("usage-marks");

/** KEYS: a hash of days by account. ARGV: its life in ms, then account and day of each. */
const RAISE = defineTaggedScript(`
for i = 2, #ARGV, 2 do
  local known = tonumber(redis.call('HGET', KEYS[1], ARGV[i]) or nil)
  if not known or tonumber(ARGV[i + 1]) > known then redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1`);

/** KEYS: the claim. ARGV: this gateway, and the life in ms. Returns 1 if the claim is this gateway's. */
const CLAIM = defineTaggedScript(`
local by = redis.call('HGET', KEYS[1], 'by')
if by and by ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'by', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`);

/** KEYS: the claim. ARGV: this gateway. */
const RELEASE = defineTaggedScript(`
if redis.call('HGET', KEYS[1], 'by') == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`);

/**
 * The marks in Redis: a hash for each bucket, so that on a Cluster the marks of an account are on the
 * node that has its history, and its days close by the clock of that node.
 */
export class RedisUsageMarks implements UsageMarks {
  readonly #quotaClient: QuotaClient;
  /** Names this gateway in its claim. */
  readonly #origin = randomUUID();

  constructor(quotaClient: QuotaClient) {
    this.#quotaClient = quotaClient;
  }

  async read(accountRefs: readonly AccountRef[]): Promise<readonly (UsageMark | undefined)[]> {
    const found = new Map<AccountRef, UsageMark>();
    const failures: unknown[] = [];
    const pages = [...this.#pages(accountRefs, (accountRef) => accountRef)];
    await Promise.all(
      pages.map(async ({ key, some }) => {
        const run = this.#quotaClient.runOnAccounts(READ, [key], some.map(accountId));
        try {
          const [nowMs, ...days] = (await withTimeout(run, REPLY_LATE_MS)) as (string | null)[];
          const closedDay = lastClosedDay(Number(nowMs));
          for (const [i, accountRef] of some.entries()) {
            found.set(accountRef, { day: parseDay(days[i]), closedDay });
          }
        } catch (failure) {
          failures.push(failure);
        }
      }),
    );
    if (pages.length > 0 && failures.length === pages.length) throw failures[0];
    return accountRefs.map((accountRef) => found.get(accountRef));
  }

  async raise(acknowledged: readonly AcknowledgedUsage[]): Promise<void> {
    const lifeMs = Math.ceil((this.#quotaClient.historyMs ?? 0) + SPARE_MS);
    for (const { key, some } of this.#pages(acknowledged, ({ accountRef }) => accountRef)) {
      const each = some.flatMap(({ accountRef, day }) => [accountId(accountRef), day]);
      await this.#quotaClient.run(RAISE, key, [lifeMs, ...each]);
    }
  }

  async claim(lifeMs: number): Promise<boolean> {
    const args = [this.#origin, Math.ceil(lifeMs)];
    return (await this.#quotaClient.run(CLAIM, this.#claimKey, args)) === 1;
  }

  async release(): Promise<void> {
    const released = this.#quotaClient.run(RELEASE, this.#claimKey, [this.#origin]);
    await released.catch(() => undefined);
  }

  *#pages<T>(all: readonly T[], nameOf: (one: T) => AccountRef) {
    for (const [bucket, group] of Map.groupBy(all, (one) => bucketOf(nameOf(one)))) {
      const key = `${this.#quotaClient.prefix}:{${bucket}}:usage-acknowledged`;
      for (let from = 0; from < group.length; from += PAGE) {
        yield { key, some: group.slice(from, from + PAGE) };
      }
    }
  }

  get #claimKey(): string {
    return `${this.#quotaClient.prefix}:{0}:usage-sender`;
  }
}

/** A field that is not a number is damaged: its days are sent once more. */
function parseDay(text: string | null | undefined): number | undefined {
  const day = Number(text ?? Number.NaN);
  return Number.isSafeInteger(day) ? day : undefined;
}
