import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
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

/** Reads the file that PIPE names and its stdin, in a process that can be ended while it waits. */
const PIPES = `
import { readTextFile } from "${SOURCE}";
const read = [await readTextFile(process.env.PIPE, 10), await readTextFile("/dev/stdin", 10)];
console.log(JSON.stringify(read));
`;

it("a file that is a pipe is refused at once, and a pipe that the caller hands over is read", async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), "pipe-"));
  const env = { ...process.env, PIPE: join(folder.path, "named.yaml") };
  const program = `data:text/javascript,${encodeURIComponent(PIPES)}`;
  const script = `mkfifo "$PIPE" && echo given | "$0" --import "$1" -e ""`;
  const args = ["-c", `exec timeout -s KILL 10 sh -c '${script}' "$0" "$1"`];
  const run = await promisify(execFile)("sh", [...args, process.execPath, program], { env });
  assert.deepEqual(JSON.parse(run.stdout), [
    { ok: false, line: 1, why: "it is a pipe; name a file" },
    { ok: true, text: "given\n" },
  ]);
});

it("a file that cannot be read for want of descriptors is told with what to do about it", async () => {
  const program = `data:text/javascript,${encodeURIComponent(STARVED)}`;
  const script = `ulimit -n 128 && exec "$0" --import "$1" -e ""`;
  const run = await promisify(execFile)("sh", ["-c", script, process.execPath, program]);
  const why =
    "too many files are open (EMFILE); raise their limit (ulimit -n), or lower limits.connections";
  assert.deepEqual(JSON.parse(run.stdout), [
    { ok: true, text: "" },
    { ok: false, line: 1, why, isUnread: true },
  ]);
});
