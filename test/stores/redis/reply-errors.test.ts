import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { toStoreFailure } from "../../../src/stores/redis/store-failure.ts";

function reply(message: string) {
  return toStoreFailure(Object.assign(new Error(message), { name: "ReplyError" }));
}

describe("a reply that is an error", () => {
  it("has executed nothing where Redis refuses the call as a whole", () => {
    for (const text of ["OOM command not allowed", "READONLY You can't write", "NOPERM no keys"]) {
      assert.equal(reply(text).executed, "no", text);
    }
  });

  it("may have executed something where a right was missing in the middle of a script", () => {
    const { code, executed } = reply(
      "ERR The user executing the script can't run this command or subcommand script: 1f",
    );
    assert.deepEqual([code, executed], ["NOPERM", "unknown"]);
  });

  it("is NOPERM where Redis does not have the command, with its name and no argument", () => {
    const args = "with args beginning with: 'the script' '1' ";
    for (const quoted of ["'evalsha'", "`evalsha`"]) {
      const { code, executed, message } = reply(`ERR unknown command ${quoted}, ${args}`);
      assert.deepEqual([code, executed], ["NOPERM", "no"]);
      assert.equal(message, `Redis: ERR unknown command ${quoted}`);
    }
    const midway = reply("ERR Unknown Redis command called from script script: 7b83, on @user:4.");
    assert.deepEqual([midway.code, midway.executed], ["NOPERM", "unknown"]);
  });

  it("tells the store's now where the store came to the call too late", () => {
    const { code, executed, storeNowMs } = reply("LATE 1784116800000");
    assert.deepEqual([code, executed, storeNowMs], ["LATE", "no", 1_784_116_800_000]);
  });
});
