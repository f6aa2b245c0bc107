import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { openSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "vitest";
import { jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

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

  it("that has a new key is told with what was changed and what to do about it", async () => {
    await using folder = await openFolder();
    const config = ["--config", await writeConfig(folder)];
    const asked = ["keys", "create", "--env", "production", "--plan", "free", ...config];
    const [status, told] = await end(asked, "pipe");
    const [, id = ""] = told.match(/^Issued, but not shown: key (k_\w+)\./m) ?? [];
    assert.equal(status, 1, told);
    assert.match(told, /^Cannot write to stdout: .*EPIPE/);
    assert.match(told, /`keys revoke ID` ends it, `keys rotate ID --grace 0s` issues another/);
    const [again, after] = await end(["keys", "rotate", id, ...config], full());
    const [, next = ""] = after.match(/^Issued, but not shown: key (k_\w+)\./m) ?? [];
    assert.equal(again, 1, after);
    assert.match(
      after,
      new RegExp(`^Key ${id} works until .*\`keys set ${id} --expires\` changes`, "m"),
    );
    const args = ["keys", "rotate", next, "--grace", "0s", "--json", ...config];
    assert.equal(jsonOf<{ previous: { id: string } }>(await runVerb(args)).previous.id, next);
  });
});
