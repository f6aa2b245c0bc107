import assert from "node:assert/strict";
import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { it } from "vitest";
import { removeCompileCache } from "../../../src/server/process/compiled-code.ts";
import { openFolder } from "../../cli/kit.ts";

it("a process whose parent is gone removes the folder of their run, and none that people gave", async () => {
  await using folder = await openFolder();
  const [ofRun, given] = [join(folder.path, "tollgate-compiled-a1"), join(folder.path, "given")];
  for (const path of [ofRun, given]) {
    await mkdir(join(path, "v26"), { recursive: true });
    await removeCompileCache({ NODE_COMPILE_CACHE: path });
  }
  await removeCompileCache({});
  assert.deepEqual(await readdir(folder.path), ["given"]);
  assert.deepEqual(await readdir(given), ["v26"]);
});
