import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it, onTestFinished } from "vitest";
import { startProgram } from "./processes.ts";

it("a bash that a test starts reads nothing of the settings of its user", async () => {
  const home = await mkdtemp(join(tmpdir(), "tollgate-home-"));
  onTestFinished(() => rm(home, { recursive: true, force: true }));
  await writeFile(join(home, ".bashrc"), "echo settings\n");
  const running = startProgram("bash", ["-c", "echo script"], { env: { HOME: home } });
  assert.equal((await running.exited).stdout, "script\n");
});
