import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { describe, it } from "vitest";

const LINK = new URL("../../../src/stores/redis/engines/single-link.ts", import.meta.url);

/** Whether V8 has the methods of strings at hand, in a process of their own, at three moments. */
function looks(): unknown {
  const script = `
    const atHand = () => %HasFastProperties(String.prototype);
    const before = atHand();
    const { connectRedis } = await import(${JSON.stringify(LINK.href)});
    const loaded = atHand();
    const url = "redis://127.0.0.1:1";
    const link = connectRedis({ address: { kind: "redis", url, shown: url } });
    await link.tried;
    const connected = atHand();
    await link.close();
    console.log(JSON.stringify({ before, loaded, connected }));`;
  const flags = ["--allow-natives-syntax", "--input-type=module", "--eval", script];
  return JSON.parse(execFileSync(process.execPath, flags, { encoding: "utf8" }));
}

describe("the methods of strings", () => {
  it("are at hand once there is a link to Redis, though loading ioredis takes them away", () => {
    // Where `loaded` is true, ioredis does it no more, and restoreStringMethods of single-link.ts can go.
    assert.deepEqual(looks(), { before: true, loaded: false, connected: true });
  });
});
