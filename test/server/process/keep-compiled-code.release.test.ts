import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "vitest";
import { engineNodes, programOf } from "../../support/node-versions.ts";

const SETTINGS = new URL("../../../src/server/process/compiled-code.ts", import.meta.url);
const nodes = await engineNodes();

/** The words of V8 on the settings that a process gives it: it names one that it does not know. */
function complaintsAt(node: string, script: string): string {
  const { status, stderr } = spawnSync(node, ["--input-type=module", "--eval", script], {
    encoding: "utf8",
  });
  assert.equal(status, 0, stderr);
  return stderr;
}

describe("the settings of the heap", () => {
  it.each(nodes)("are those that V8 knows, on Node $version", (node) => {
    const unknown = `(await import("node:v8")).setFlagsFromString("--memory-reducer-delay=1");`;
    const given = `const settings = await import(${JSON.stringify(SETTINGS.href)});
      settings.keepCompiledCode(process.versions.v8);
      settings.growYoungGenerationAtOnce();`;
    assert.match(complaintsAt(programOf(node), unknown), /unrecognized flag/);
    assert.equal(complaintsAt(programOf(node), given), "");
  });
});
