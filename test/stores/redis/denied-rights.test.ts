import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { deniedReporter } from "../../../src/stores/redis/denied-rights.ts";
import { StoreFailure } from "../../../src/stores/redis/store-failure.ts";

/** A reporter of missing rights, and the rights that it has named. */
function open() {
  const named: (string | undefined)[] = [];
  const report = (level: string, message: string, details?: Record<string, unknown>) => {
    assert.deepEqual([level, message], ["error", "store_right_missing"]);
    named.push(/has no right to (.*), or Redis has/.exec(String(details?.why))?.[1]);
  };
  const tell = deniedReporter("redis://host", report);
  const denied = (why: string) => new StoreFailure("NOPERM", why, "no");
  return { named, tell, denied };
}

describe("a right that is missing", () => {
  it("is the command that Redis names, in capitals, and else all that was to be done", () => {
    const { named, tell, denied } = open();
    tell("DEL tg:told", denied("Redis refused it, for eval: docs/operations.md"));
    tell("HGETALL tg:a", denied("no permission to run the 'hgetall' command"));
    tell("SET tg:b", denied("it lacks a permission"));
    tell("DEL tg:c", denied("unknown command 'hdel', with args"));
    assert.deepEqual(named, ["EVAL", "HGETALL tg:a", "SET tg:b", "HDEL"]);
  });

  it("is told once until it is there, and beside it another one of the same script", () => {
    const { named, tell, denied } = open();
    const [incr, hget] = ["incr", "hget"].map((name) => denied(`, for ${name}: `));
    for (const failure of [incr, incr, hget, hget]) tell("TAKE tg:told", failure);
    assert.deepEqual(named, ["INCR", "HGET"]);
    tell("TAKE tg:told", new StoreFailure("late", "no answer", "unknown"));
    tell("TAKE tg:told", hget);
    assert.deepEqual(named, ["INCR", "HGET"]);
    tell("TAKE tg:told");
    tell("TAKE tg:told", hget);
    assert.deepEqual(named, ["INCR", "HGET", "HGET"]);
  });
});
