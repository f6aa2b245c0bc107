import assert from "node:assert/strict";
import { join } from "node:path";
import { it } from "vitest";
import { startPetsProcess } from "../../../src/cli/prove/processes.ts";

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
