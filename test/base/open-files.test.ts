import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";
import { it } from "vitest";
import { provided } from "../support/needing.ts";

const linux = provided(process.platform === "linux", "Linux");

it("connections have their share of the files that a process may open", linux, async () => {
  const module = pathToFileURL(join(import.meta.dirname, "../../src/base/open-files.ts"));
  const program = `import { connectionsWithin } from "${module}";
    console.log([[0.5, 99], [0.5, 50], [0.5, 49], [0.999, 99]].map((one) => connectionsWithin(...one)).join());`;
  const command = 'ulimit -n 101 && exec "$0" --input-type=module -e "$1"';
  const run = promisify(execFile);
  const { stdout } = await run("sh", ["-c", command, process.execPath, program]);
  assert.equal(stdout, "50,50,49,99\n");
});
