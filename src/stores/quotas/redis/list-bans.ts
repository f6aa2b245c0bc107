import type { Link, RedisNode } from "../../redis/link.ts";
import { withTimeout } from "../../redis/store-failure.ts";
import type { AccountBan } from "../quota-store.ts";
import { parseBan } from "./decide-codec.ts";

const PAGE = 1_000;
const PAGE_LATE_MS = 2_000;

/**
 * Every ban in force, from the accounts themselves: an index beside them would need a second key in
 * each decision, which a Cluster refuses while a slot moves, or could be wrong. Costs a SCAN of the
 * store in pages, so that no other client waits; for people, not for requests. Rejects when the store
 * is away.
 */
export async function listBans(
  link: Link,
  prefix: string,
  now?: () => number,
): Promise<AccountBan[]> {
  const pattern = `${prefix.replace(/[\\*?[\]]/g, "\\$&")}:{*}:*:*`;
  const found = new Map<string, AccountBan>();
  for (const node of await link.masters()) {
    const nowMs = now ? now() : await timeOf(node);
    let cursor = "0";
    do {
      const page = await send(node, "scan", [
        cursor,
        "MATCH",
        pattern,
        "COUNT",
        PAGE,
        "TYPE",
        "hash",
      ]);
      const [next, keys] = page as [string, string[]];
      for (const [id, ban] of await bansOf(link, prefix, keys, nowMs)) found.set(id, ban);
      cursor = next;
    } while (cursor !== "0");
  }
  return [...found.values()].sort((a, b) => a.ban.untilMs - b.ban.untilMs);
}

async function bansOf(link: Link, prefix: string, keys: readonly string[], nowMs: number) {
  const found: [string, AccountBan][] = [];
  await Promise.all(
    keys.map(async (key) => {
      const text = await withTimeout(link.send(key, "hget", [key, "b"]), PAGE_LATE_MS);
      const ban = typeof text === "string" ? parseBan(text) : undefined;
      const [, , environment, account] = split(key, prefix);
      if (ban === undefined || ban.untilMs <= nowMs || !environment || !account) return;
      found.push([`${environment}:${account}`, { environment, account, ban }]);
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
  const [seconds, micros] = (await send(node, "time", [])) as [string, string];
  return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
}

function send(node: RedisNode, name: string, args: readonly (string | number)[]): Promise<unknown> {
  return withTimeout(node.send(name, args), PAGE_LATE_MS);
}
