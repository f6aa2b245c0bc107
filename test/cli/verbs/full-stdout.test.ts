import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { openSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "vitest";

const MAIN = join(import.meta.dirname, "../../../src/main.ts");

/** The exit status of a verb and what it says on stderr. */
async function end(args: readonly string[], stdout: number | "pipe"): Promise<[number, string]> {
  const child = spawn(process.execPath, [MAIN, ...args], { stdio: ["ignore", stdout, "pipe"] });
  child.stdout?.destroy();
  let told = "";
  child.stderr?.setEncoding("utf8").on("data", (piece) => {
    told += piece;
  });
  const [status] = await once(child, "close");
  return [status, told];
}

const full = () => openSync("/dev/full", "w");

describe("the output of a verb", () => {
  it("that finds the disk full is a failure in words, as a backup or a new key is lost", async () => {
    const message = "Cannot write to stdout: the disk is full (ENOSPC)\n";
    assert.deepEqual(await end(["schema"], full()), [1, message]);
    assert.deepEqual(await end(["version", "--json"], full()), [1, message]);
  });

  it("that nobody reads to its end is no failure", async () => {
    assert.deepEqual(await end(["schema"], "pipe"), [0, ""]);
  });

  it("that cannot be written leaves a status that says more as it is", async () => {
    const [status, told] = await end(["check", "--config", "/nowhere.yaml", "--json"], full());
    assert.equal(status, 78);
    assert.match(told, /no such file/);
  });
});
