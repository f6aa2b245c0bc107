import { createHash, randomUUID } from "node:crypto";
import { keyBucket } from "./hash-slots.ts";
import type { Link, RedisArgument, ReplyReader } from "./link.ts";
import { replyList, toStoreFailure, unreadableFailure } from "./store-failure.ts";

/** A script and the hash by which EVALSHA calls it. */
export type Script = {
  readonly text: string;
  readonly sha: string;
  /** Whether the reply repeats the last argument, by which the caller knows it. */
  readonly isTagged: boolean;
  /**
   * The nodes that have the script, if no later call may overtake one that a node answers with
   * NOSCRIPT. Other nodes get the whole text at once.
   */
  readonly knownTo?: WeakSet<object>;
};

/** Gateways have tags of their own: a proxy may mix up their replies. */
const ORIGIN = randomUUID().slice(0, 8);
let tagsUsed = 0;

/** A script whose replies are checked by `read` of runScript. */
export function defineScript(text: string): Script {
  const sha = createHash("sha1").update(text).digest("hex");
  return { text, sha, isTagged: false };
}

/** A script whose replies carry a tag of their call. An error that it returns carries none. */
export function defineTaggedScript(text: string): Script {
  const whole = `local tag = table.remove(ARGV)
local function answer()
${text}
end
local reply = answer()
if type(reply) == 'table' and reply.err then return reply end
return { tag, reply or false }`;
  return { ...defineScript(whole), isTagged: true };
}

/**
 * Removes a key that never exists. Redis that is out of memory refuses a script whose first write
 * takes memory, and lets one go on that has written. For scripts that tell of a change that was made,
 * which must be told all the same: an audit takes a reset that no log has for a drift.
 */
export const WRITE_WITHOUT_MEMORY = "redis.pcall('DEL', KEYS[1] .. '?')";

/** The same script, whose calls keep their place among the commands of their connection. */
export function keepingPlace(script: Script): Script {
  return { ...script, knownTo: new WeakSet() };
}

/** NOSCRIPT means that nothing was executed. After SCRIPT FLUSH the whole text is sent, once. */
export async function runScript(
  link: Link,
  script: Script,
  key: string,
  args: readonly RedisArgument[],
  read?: ReplyReader,
) {
  const tag = `${ORIGIN}${++tagsUsed}`;
  const given = script.isTagged ? [...args, tag] : args;
  const readOwn = script.isTagged ? (reply: unknown) => readTagged(reply, tag) : read;
  const { text, sha, knownTo } = script;
  const sendText = () => link.send(key, "eval", [text, ...given], readOwn);
  const node = knownTo && link.nodeOf(keyBucket(key));
  try {
    const isKnown = node === undefined || knownTo?.has(node);
    const answer = await (isKnown
      ? link.send(key, "evalsha", [sha, ...given], readOwn)
      : sendText());
    if (node !== undefined) knownTo?.add(node);
    return answer;
  } catch (error) {
    // The server behind the next connection may be a different one.
    if (node !== undefined) knownTo?.delete(node);
    if (toStoreFailure(error).code !== "NOSCRIPT") throw error;
    return sendText();
  }
}

function readTagged(reply: unknown, tag: string): unknown {
  const [told, answer] = replyList(reply);
  if (told !== tag) throw unreadableFailure("it is that of another call");
  return answer;
}
