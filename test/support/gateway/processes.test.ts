import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "vitest";
import { openFolder } from "../../cli/kit.ts";
import { startProgram } from "./processes.ts";

it("a bash that a test starts reads nothing of the settings of its user", async () => {
  await using home = await openFolder();
  await writeFile(join(home.path, ".bashrc"), "echo settings\n");
  const running = startProgram("bash", ["-c", "echo script"], { env: { HOME: home.path } });
  assert.equal((await running.exited).stdout, "script\n");
});
