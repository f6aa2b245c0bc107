import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "vitest";

const OURS = new URL("../../../src/stores/redis/short-lived-command.ts", import.meta.url);

/** Bytes of the old space that each answered command takes, in a process of their own. */
function bytesLeftBy(name: "Command" | "ShortLivedCommand"): number {
  const script = `
    import { getHeapSpaceStatistics } from "node:v8";
    import { Command } from "ioredis";
    import { ShortLivedCommand } from ${JSON.stringify(OURS.href)};
    const Made = { Command, ShortLivedCommand }.${name};
    const oldBytes = () => {
      for (let i = 0; i < 2; i++) gc({ type: "minor" });
      return getHeapSpaceStatistics().find((each) => each.space_name === "old_space").space_used_size;
    };
    const answer = async (count) => {
      for (let i = 0; i < count; i++) {
        const command = new Made("ping", [], { replyEncoding: "utf8" });
        setImmediate(() => command.resolve("PONG"));
        await command.promise;
        if (i % 500 === 0) gc({ type: "minor" });
      }
    };
    await answer(3_000);
    gc();
    const before = oldBytes();
    await answer(3_000);
    console.log((oldBytes() - before) / 3_000);`;
  const flags = ["--expose-gc", "--input-type=module", "--eval", script];
  return Number(execFileSync(process.execPath, flags, { encoding: "utf8" }));
}

describe("an answered command", () => {
  it("is freed by the next collection of the young generation", () => {
    const bytes = bytesLeftBy("ShortLivedCommand");
    assert.ok(bytes < 50, `${bytes} bytes of each command wait for a full collection`);
  });

  it("of ioredis waits for a full collection", () => {
    // Where this fails, ioredis has mended it, and ShortLivedCommand can go.
    const bytes = bytesLeftBy("Command");
    assert.ok(bytes > 300, `only ${bytes} bytes of each command wait for a full collection`);
  });
});
