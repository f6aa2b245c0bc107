import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import type { Redis } from "ioredis";
import { DECIDE_SCRIPT } from "../../src/stores/quotas/redis/account-scripts.ts";
import { defineScript } from "../../src/stores/redis/script.ts";
import { play } from "../stores/quotas/redis/decide-play.ts";
import { sequence } from "../stores/quotas/redis/decide-sequences.ts";
import { startRedis, type TestRedis } from "../support/redis/redis.ts";

/** A mutant that differs does so within the first few. */
const SEQUENCES = 100;
/** They end within a second or two; a script that never ends has been noticed. */
const TRIAL_MS_MAX = 30_000;

/**
 * The differential test of decide.lua (test/stores/quotas/redis/decide.test.ts) in this process: most mutants
 * are noticed in a hundredth of the time that a run of the tests takes.
 */
export class LuaTrial implements AsyncDisposable {
  readonly #server: TestRedis;
  #redis: Redis;

  private constructor(server: TestRedis, redis: Redis) {
    this.#server = server;
    this.#redis = redis;
  }

  static async open(): Promise<LuaTrial> {
    const server = await startRedis();
    return new LuaTrial(server, await server.client());
  }

  /** True where the decision, with `after` in the place of its part `before`, differs from `decide()`. */
  async notices(before: string, after: string): Promise<boolean> {
    const changed = defineScript(DECIDE_SCRIPT.text.replace(before, () => after));
    const late = Symbol("late");
    const stop = new AbortController();
    const deadline = sleep(TRIAL_MS_MAX, late, { signal: stop.signal });
    deadline.catch(() => undefined);
    const same = this.#agrees(changed.text);
    const first = await Promise.race([same, deadline]);
    stop.abort();
    if (first !== late) return first !== true;
    await this.#server.restart();
    this.#redis.disconnect();
    this.#redis = await this.#server.client();
    return true;
  }

  async #agrees(text: string): Promise<boolean> {
    const redis = this.#redis;
    try {
      const changed = defineScript(text);
      await redis.script("LOAD", text);
      const { failed } = await fc.check(
        fc.asyncProperty(sequence, (run) => play(redis, run, changed)),
        { numRuns: SEQUENCES, endOnFailure: true },
      );
      return !failed;
    } catch {
      // Redis does not take the script: it is no Lua any more.
      return false;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#server.close();
  }
}
