import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { it } from "vitest";

const COMMAND = new URL("../../../src/stores/redis/short-lived-command.ts", import.meta.url);

/** Bytes of the old space that each answered command takes, in a process of their own. */
function bytesLeft(): number {
  const script = `
    import { getHeapSpaceStatistics } from "node:v8";
    import { ShortLivedCommand } from ${JSON.stringify(COMMAND.href)};
    const oldBytes = () => {
      for (let i = 0; i < 2; i++) gc({ type: "minor" });
      return getHeapSpaceStatistics().find((each) => each.space_name === "old_space").space_used_size;
    };
    const answer = async (count) => {
      for (let i = 0; i < count; i++) {
        const command = new ShortLivedCommand("ping", [], { replyEncoding: "utf8" });
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

it("an answered command is freed by the next collection of the young generation", () => {
  const bytes = bytesLeft();
  assert.ok(bytes < 50, `${bytes} bytes of each command wait for a full collection`);
});
