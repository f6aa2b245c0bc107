import { randomUUID } from "node:crypto";
import type { Redis } from "ioredis";
import { type RedisArgument, type ReplyReader, sendOn } from "../link.ts";
import { readingLater, StoreFailure, unreadableFailure } from "../store-failure.ts";
import { endConnection } from "./unasked-replies.ts";

const WORD_SCRIPT = "return ARGV[1]";
/** Replies of other processes may be mixed up with those of this one. */
const ORIGIN = randomUUID().slice(0, 8);
let wordsSent = 0;
/** The proof that follows the commands of the present turn, by connection. */
const coming = new WeakMap<Redis, Promise<void>>();

/**
 * Sends one command, and takes no reply for its own that is another's. The protocol of Redis gives a
 * reply to the command that waits longest, so one reply too many, or one that is lost, moves all that
 * follow. A reply is checked by `read` or, without it, by a word that is asked for behind the commands
 * of one turn. If a check fails, the connection ends (docs/reference/store.md#replies).
 */
export async function sendProven(
  redis: Parameters<typeof sendOn>[0],
  name: string,
  args: readonly RedisArgument[],
  read?: ReplyReader,
): Promise<unknown> {
  const reply = sendOn(redis, name, args);
  if (read === undefined) {
    const [proof, given] = await Promise.allSettled([proofOn(redis), reply]);
    if (proof.status === "rejected") throw proof.reason;
    return given.status === "rejected" ? Promise.reject(given.reason) : given.value;
  }
  const given = await reply.catch((error) => Promise.reject(readingLater(error, read)));
  try {
    return read(given);
  } catch (error) {
    endConnection(redis.stream);
    throw error instanceof StoreFailure ? error : unreadableFailure((error as Error).message);
  }
}

function proofOn(redis: Redis): Promise<void> {
  let proof = coming.get(redis);
  if (proof === undefined) {
    proof = Promise.resolve().then(() => {
      coming.delete(redis);
      return askWord(redis);
    });
    coming.set(redis, proof);
  }
  return proof;
}

/** A server that refuses to say the word proves nothing, and is believed. */
async function askWord(redis: Redis): Promise<void> {
  const word = `${ORIGIN}${++wordsSent}`;
  const refusal = (error: Error) => (error.name === "ReplyError" ? word : Promise.reject(error));
  const reply = sendOn(redis, "eval", [WORD_SCRIPT, 0, word]);
  if ((await reply.catch(refusal)) === word) return;
  endConnection(redis.stream);
  throw unreadableFailure("it is that of another command");
}
