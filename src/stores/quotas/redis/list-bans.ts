import { errorMessage } from "../../../base/messages.ts";
import type { RedisNode } from "../../redis/link.ts";
import { scanKeys } from "../../redis/scan-keys.ts";
import { replyList, withTimeout } from "../../redis/store-failure.ts";
import type { AccountBan, OnMissing } from "../quota-store.ts";
import { parseBan } from "./decide-codec.ts";
import { type QuotaClient, REPLY_LATE_MS } from "./quota-client.ts";

type ListBansOptions = {
  readonly prefix: string;
  /** The store's test clock, in milliseconds. */
  readonly now?: (() => number) | undefined;
  readonly onMissing?: OnMissing | undefined;
};

/**
 * Every ban in force, read from the accounts themselves. An index next to them could be wrong, or
 * would need a second key in each decision, which a Cluster refuses while a slot moves. Costs a
 * SCAN of the store in pages, so that no other client waits. It is meant for people, not for
 * requests. Rejects if the store cannot be reached; on a Cluster only without `onMissing`.
 */
export async function listBans(
  quotaClient: Pick<QuotaClient, "ask" | "link">,
  { prefix, now, onMissing }: ListBansOptions,
): Promise<AccountBan[]> {
  const found = new Map<string, AccountBan>();
  for (const node of await quotaClient.link.masters()) {
    try {
      for await (const [id, ban] of bansOn(node, quotaClient, { prefix, now })) found.set(id, ban);
    } catch (error) {
      if (node.part === undefined || onMissing === undefined) throw error;
      onMissing({ ...node.part, why: errorMessage(error) });
    }
  }
  return [...found.values()].sort((a, b) => a.ban.untilMs - b.ban.untilMs);
}

async function* bansOn(
  node: RedisNode,
  quotaClient: Pick<QuotaClient, "ask">,
  { prefix, now }: ListBansOptions,
): AsyncGenerator<[string, AccountBan]> {
  const nowMs = now ? now() : await timeOf(node);
  for await (const keys of scanKeys(node, prefix, { pattern: ":{*}:*:*", type: "hash" })) {
    yield* await bansOf(quotaClient, prefix, keys, nowMs);
  }
}

async function bansOf(
  { ask }: Pick<QuotaClient, "ask">,
  prefix: string,
  keys: readonly string[],
  nowMs: number,
) {
  const found: [string, AccountBan][] = [];
  await Promise.all(
    keys.map(async (key) => {
      const text = await ask("hget", key, ["b"]);
      const ban = typeof text === "string" ? parseBan(text) : undefined;
      const [, , environment, account] = split(key, prefix);
      if (ban === undefined || ban.untilMs <= nowMs || !environment || !account) return;
      found.push([
        `${environment}:${account}`,
        { environment, account, ban, leftMs: ban.untilMs - nowMs },
      ]);
    }),
  );
  return found;
}

/** `prefix:{bucket}:environment:account`; the prefix may hold colons too. */
function split(key: string, prefix: string): string[] {
  const [bucket = "", environment = "", ...account] = key.slice(prefix.length + 1).split(":");
  return [prefix, bucket, environment, account.join(":")];
}

async function timeOf(node: RedisNode): Promise<number> {
  const reply = await withTimeout(node.send("time", []), REPLY_LATE_MS);
  const [seconds, micros] = replyList(reply) as [string, string];
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
}
