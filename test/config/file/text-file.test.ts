import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { it } from "vitest";

const SOURCE = new URL("../../../src/config/file/text-file.ts", import.meta.url);

/** Reads a file, opens others until the system refuses, and reads it again. */
const STARVED = `
import { openSync } from "node:fs";
import { readTextFile } from "${SOURCE}";
const before = await readTextFile("/dev/null", 10);
try { for (;;) openSync("/dev/null"); } catch {}
console.log(JSON.stringify([before, await readTextFile("/dev/null", 10)]));
`;

it("a file that cannot be read for want of descriptors is told with what to do about it", async () => {
  const program = `data:text/javascript,${encodeURIComponent(STARVED)}`;
  const script = `ulimit -n 128 && exec "$0" --import "$1" -e ""`;
  const run = await promisify(execFile)("sh", ["-c", script, process.execPath, program]);
  const why =
    "too many files are open (EMFILE); raise their limit (ulimit -n), or lower limits.connections";
  assert.deepEqual(JSON.parse(run.stdout), [
    { ok: true, text: "" },
    { ok: false, line: 1, why },
  ]);
});
