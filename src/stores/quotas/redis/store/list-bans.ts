import { errorMessage } from "../../../../base/messages.ts";
import { banAt, presentBan } from "../../../../core/quota/bans.ts";
import type { RedisNode } from "../../../redis/link.ts";
import { scanKeys } from "../../../redis/scan-keys.ts";
import { parseTime } from "../../../redis/store-clock.ts";
import { withTimeout } from "../../../redis/store-failure.ts";
import { accountId, bucketOf, parseAccountId } from "../../account-ref.ts";
import type { DecisionCache } from "../../batch/decision-cache.ts";
import type { AccountBan, OnMissing } from "../../quota-store.ts";
import { type QuotaClient, REPLY_LATE_MS } from "../quota-client.ts";
import { parseBan } from "../stored-bans.ts";

/**
 * Every ban in force, read from the accounts themselves. An index next to them could be wrong, or
 * would need a second key in each decision, which a Cluster refuses while a slot moves. Costs a
 * SCAN of the store in pages, so that no other client waits. It is meant for people, not for
 * requests. `heldBans` has those that hold although the store has none of their account: before and
 * after, because one may be earned once its account was passed. `now` is the store's test clock, in
 * milliseconds. Rejects if the store cannot be reached; on a Cluster only without
 * `onMissing`.
 */
export async function listBans(
  quotaClient: QuotaClient,
  { heldBans, now }: Pick<DecisionCache, "heldBans"> & { readonly now?: Now },
  onMissing?: OnMissing,
): Promise<AccountBan[]> {
  const found = new Map<string, AccountBan>();
  const missing = new Set<number>();
  const before = new Set(heldBans(found).map(accountId));
  for (const node of await quotaClient.link.masters()) {
    try {
      for await (const [id, ban] of bansOn(node, quotaClient, now)) found.set(id, ban);
    } catch (error) {
      if (node.part === undefined || onMissing === undefined) throw error;
      for (const bucket of node.part.buckets) missing.add(bucket);
      onMissing({ ...node.part, why: errorMessage(error) });
    }
  }
  const lost = heldBans(found).filter(
    (one) => before.has(accountId(one)) && !missing.has(bucketOf(one)),
  );
  return [...found.values(), ...lost].sort((a, b) => a.ban.untilMs - b.ban.untilMs);
}

type Now = (() => number) | undefined;

async function* bansOn(
  node: RedisNode,
  quotaClient: QuotaClient,
  now: Now,
): AsyncGenerator<[string, AccountBan]> {
  const nowMs = now ? now() : parseTime(await withTimeout(node.send("time", []), REPLY_LATE_MS));
  const pages = scanKeys(node, quotaClient.prefix, { pattern: ":{*}:*:*", type: "hash" });
  for await (const keys of pages) yield* await bansOf(quotaClient, keys, nowMs);
}

async function bansOf({ ask, prefix }: QuotaClient, keys: readonly string[], nowMs: number) {
  const found: [string, AccountBan][] = [];
  await Promise.all(
    keys.map(async (key) => {
      const text = await ask("hget", key, ["b"]);
      const stored = typeof text === "string" ? parseBan(text) : undefined;
      const ban = banAt(stored && presentBan(stored, nowMs), nowMs);
      // The prefix may hold colons too.
      const accountRef = parseAccountId(key.slice(key.indexOf(":", prefix.length + 1) + 1));
      if (ban === undefined || !accountRef.environment || !accountRef.account) return;
      found.push([accountId(accountRef), { ...accountRef, ban, leftMs: ban.untilMs - nowMs }]);
    }),
  );
  return found;
}
