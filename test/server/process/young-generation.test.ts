import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { describe, it } from "vitest";

const SETTINGS = new URL("../../../src/server/process/compiled-code.ts", import.meta.url);

/** Allocates 30 MB, of which half a megabyte is in use; prints the size of the young generation. */
const SCRIPT = `
import { getHeapSpaceStatistics } from "node:v8";
import { growYoungGenerationAtOnce } from ${JSON.stringify(SETTINGS.href)};
if (process.argv.includes("grow")) growYoungGenerationAtOnce();
const used = new Array(4_000);
for (let i = 0; i < 320_000; i++) used[i % 4_000] = { a: i, b: [i, i, i, i], c: { d: i } };
const space = getHeapSpaceStatistics().find(({ space_name }) => space_name === "new_space");
console.log(space.space_size / 1024 / 1024);
`;

function youngGenerationMib(...args: string[]): number {
  const command = ["--input-type=module", "--eval", SCRIPT, "--", ...args];
  const { status, stdout, stderr } = spawnSync(process.execPath, command, { encoding: "utf8" });
  assert.equal(status, 0, stderr);
  return Number(stdout);
}

describe("the young generation of a gateway's process", () => {
  it("is at its full size after as much allocation as brings V8's own to half of it", () => {
    const [own, grown] = [youngGenerationMib(), youngGenerationMib("grow")];
    assert.ok(grown >= 2 * own, `${grown} MiB, and ${own} MiB without the setting`);
  });
});

/** The pauses before V8 frees memory, by the name of the setting, of a process that has called this. */
function pausesAfter(call: string): Record<string, number> {
  const script = `
import { setFlagsFromString } from "node:v8";
import { keepCompiledCode } from ${JSON.stringify(SETTINGS.href)};
${call};
setFlagsFromString("--help");`;
  const command = ["--input-type=module", "--eval", script];
  const { stdout } = spawnSync(process.execPath, command, { encoding: "utf8" });
  const told = stdout.matchAll(/default: --((?:gc-)?memory-reducer-(?:start-)?delay-ms)=(\d+)/g);
  return Object.fromEntries([...told].map(([, name, ms]) => [name, Number(ms)]));
}

describe("the compiled code of a gateway's process", () => {
  it("is kept over pauses of ten minutes, by the name that the setting has in its V8", () => {
    const usual = pausesAfter("");
    const [now, before] = ["memory-reducer-delay-ms", "gc-memory-reducer-start-delay-ms"];
    assert.deepEqual(pausesAfter(`keepCompiledCode("14.0.1")`), { ...usual, [now]: 600_000 });
    assert.deepEqual(pausesAfter(`keepCompiledCode("13.9.9")`), { ...usual, [before]: 600_000 });
  });
});
