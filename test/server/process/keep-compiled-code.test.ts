import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "vitest";

const KEEP = new URL("../../../src/server/process/compiled-code.ts", import.meta.url);

/** The words of V8 on the settings that a process gives it: it names one that it does not know. */
function complaintsAt(script: string): string {
  const { status, stderr } = spawnSync(
    process.execPath,
    ["--input-type=module", "--eval", script],
    { encoding: "utf8" },
  );
  assert.equal(status, 0, stderr);
  return stderr;
}

describe("the setting that keeps compiled code over a pause", () => {
  it("is one that V8 knows", () => {
    const unknown = `(await import("node:v8")).setFlagsFromString("--memory-reducer-delay=1");`;
    assert.match(complaintsAt(unknown), /unrecognized flag/);
    assert.equal(
      complaintsAt(`(await import(${JSON.stringify(KEEP.href)})).keepCompiledCode();`),
      "",
    );
  });
});
