import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { toStoreFailure } from "../../../src/stores/redis/store-failure.ts";
import { readPage } from "../../docs/markdown.ts";

function reply(message: string) {
  return toStoreFailure(Object.assign(new Error(message), { name: "ReplyError" }));
}

describe("a reply that is an error", () => {
  it("has executed nothing where Redis refuses the call as a whole", () => {
    for (const text of ["OOM command not allowed", "READONLY You can't write", "NOPERM no keys"]) {
      assert.equal(reply(text).executed, "no", text);
    }
  });

  it("has a code that the page of operators names as a reason of store_away", () => {
    const [reasons = ""] =
      /^`code` is the reason: .*?\n\n/ms.exec(readPage("docs/operations.md")) ?? [];
    const words =
      "BUSY CLUSTERDOWN LATE LOADING MASTERDOWN MISCONF NEWER NOAUTH NOPERM NOREPLICAS OOM";
    for (const word of [...words.split(" "), "READONLY", "TRYAGAIN", "WRONGPASS"]) {
      const { code, message } = reply(`${word} 1`);
      assert.ok(reasons.includes(`\`${code}\``), code);
      assert.ok(!message.includes(word), `${message} is in plain words`);
    }
  });

  it("may have executed something where a right was missing in the middle of a script", () => {
    const old = "The user executing the script can't run this command or subcommand script: 1f";
    // As 7.0 says it, also of an error that the script raised itself, and as 7.2 and Valkey do.
    for (const text of [
      `ERR ${old}`,
      `ERR user_script:623: ERR ${old}, on @user_script:623.`,
      "ERR ACL failure in script: User gate has no permissions to run the 'hset' command script: 1f",
    ]) {
      const { code, executed } = reply(text);
      assert.deepEqual([code, executed], ["NOPERM", "unknown"], text);
    }
  });

  it("has executed nothing where a script says that the right was missing before any charge", () => {
    const old = "The user executing the script can't run this command or subcommand";
    // As 6.2 says an error that the script raised itself, as 7.0, and as 7.2 and Valkey do.
    for (const text of [
      `ERR Error running script (call to f_1f): @user_script:9: user_script:9: ${old}, before any charge`,
      `ERR user_script:9: ERR ${old}, before any charge script: 1f, on @user_script:9.`,
      "ERR user_script:9: ERR ACL failure in script: User gate has no permissions to run the 'hset' command, before any charge script: 1f, on @user_script:9.",
    ]) {
      const { code, executed } = reply(text);
      assert.deepEqual([code, executed], ["NOPERM", "no"], text);
    }
  });

  it("names the command or the kind of name for which a right is missing", () => {
    for (const [text, what] of [
      [
        "NOPERM User gate has no permissions to run the 'cluster|failover' command",
        "cluster|failover",
      ],
      ["ERR ACL failure in script: User gate has no permissions to run the 'hset' command", "hset"],
      ["NOPERM No permissions to access a key", "a key"],
      ["NOPERM this user has no permissions to access one of the keys used as arguments", "a key"],
      ["NOPERM No permissions to access a channel", "a channel"],
    ] as const) {
      assert.ok(
        reply(text).message.startsWith(`Redis: the user lacks a permission, for ${what}: `),
        text,
      );
    }
    const { message } = reply("NOPERM no more is said");
    assert.match(message, /^Redis: the user lacks a permission: docs\/operations\.md lists /);
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

  it("is a login that is wrong where the default user has no password, and says what to change", () => {
    for (const text of [
      "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?",
      "ERR Client sent AUTH, but no password is set",
    ]) {
      const { code, executed, message } = reply(text);
      assert.deepEqual([code, executed], ["WRONGPASS", "no"], text);
      assert.match(
        message,
        /^Redis: its default user has no password: take the one of the address/,
      );
    }
  });

  it("tells the store's now where the store came to the call too late", () => {
    const { code, executed, storeNowMs } = reply("LATE 1784116800000");
    assert.deepEqual([code, executed, storeNowMs], ["LATE", "no", 1_784_116_800_000]);
  });
});
