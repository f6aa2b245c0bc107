import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "vitest";
import { startPetsProcess } from "../../../src/cli/prove/processes.ts";
import { openFolder } from "../kit.ts";

const MAIN = join(import.meta.dirname, "../../../src/main.ts");

it("the pets of a proof end when they are told to, and need not be killed", async () => {
  const pets = await startPetsProcess([process.execPath, MAIN]);
  const before = process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  await pets.stop();
  assert.deepEqual([pets.process.exitCode, pets.process.signalCode], [0, null]);
  const timers = process.getActiveResourcesInfo().filter((name) => name === "Timeout");
  assert.equal(timers.length, before, "none would hold up the end of the proof");
});

it("the pets of a proof end when they are told to also where they were stopped before", async () => {
  const pets = await startPetsProcess([process.execPath, MAIN]);
  pets.process.kill("SIGSTOP");
  await pets.stop();
  assert.deepEqual([pets.process.exitCode, pets.process.signalCode], [0, null]);
});

it("the pets of a proof that do not start are told with the last 2,000 characters that they said", async () => {
  await using folder = await openFolder();
  const program = join(folder.path, "pets.cjs");
  for (const [first, told] of [
    ["no room\\n", "no room\nat all"],
    ["x".repeat(3_000), `${"x".repeat(1_993)}at all`],
  ] as const) {
    const text = `process.stderr.write("${first}", () => setTimeout(() => process.stderr.write("at all\\n"), 100));`;
    await writeFile(program, text);
    await assert.rejects(startPetsProcess([process.execPath, program]), {
      message: `Cannot start the pets: ${told}`,
    });
  }
});
