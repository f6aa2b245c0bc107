import type { Link, RedisNode } from "./link.ts";
import { replyList, withTimeout } from "./store-failure.ts";

const PAGE = 1_000;
const PAGE_LATE_MS = 2_000;

/**
 * The keys of a node that begin with the prefix and fit the pattern behind it, page by page, so that
 * no other client waits. `type`: only keys of this type. Rejects if the node does not reply in time.
 */
export async function* scanKeys(
  node: RedisNode,
  prefix: string,
  { pattern, type }: { readonly pattern: string; readonly type?: string },
): AsyncGenerator<readonly string[]> {
  const match = `${prefix.replace(/[\\*?[\]]/g, "\\$&")}${pattern}`;
  const filter = type === undefined ? [] : ["TYPE", type];
  let cursor = "0";
  do {
    const args = [cursor, "MATCH", match, "COUNT", PAGE, ...filter];
    const reply = await withTimeout(node.send("scan", args), PAGE_LATE_MS);
    const [next, keys] = replyList(reply) as [string, string[]];
    yield keys;
    cursor = next;
  } while (cursor !== "0");
}

/** Removes every key of a store with this prefix. Rejects if the store cannot be reached. */
export async function removeKeys(link: Link, prefix: string): Promise<void> {
  for (const node of await link.masters()) {
    for await (const keys of scanKeys(node, prefix, { pattern: ":*" })) {
      const removed = keys.map((key) => link.send(key, "del", [key]));
      await withTimeout(Promise.all(removed), PAGE_LATE_MS);
    }
  }
}
