import { createHash } from "node:crypto";
import type { Link, RedisArgument } from "./link.ts";
import { toStoreFailure } from "./store-failure.ts";

/** A script and the hash by which EVALSHA calls it. */
export type Script = { readonly text: string; readonly sha: string };

export function defineScript(text: string): Script {
  return { text, sha: createHash("sha1").update(text).digest("hex") };
}

/** NOSCRIPT means that nothing was executed. After SCRIPT FLUSH the whole text is sent, once. */
export async function runScript(
  link: Link,
  script: Script,
  key: string,
  args: readonly RedisArgument[],
) {
  try {
    return await link.send(key, "evalsha", [script.sha, ...args]);
  } catch (error) {
    if (toStoreFailure(error).code !== "NOSCRIPT") throw error;
    return link.send(key, "eval", [script.text, ...args]);
  }
}
