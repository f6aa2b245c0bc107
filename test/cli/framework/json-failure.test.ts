import assert from "node:assert/strict";
import { it } from "vitest";
import { openFolder, runVerb, writeConfig } from "../kit.ts";

it.each([
  [1, "keys show nobody"],
  [64, "keys create --env production"],
  [64, "usage --over much"],
  [78, "keys list --config missing.yaml"],
  [78, "start --config missing.yaml"],
  [78, "demo --config missing.yaml"],
] as const)(
  "a verb that ends with %i has no value with --json, and its reason on stderr: %s",
  async (status, words) => {
    await using folder = await openFolder();
    const file = await writeConfig(folder, {});
    const args = words.includes("--config") ? [] : ["--config", file];
    const said = await runVerb([...words.split(" "), "--json", ...args], { stdin: "" });
    assert.deepEqual([said.status, said.out], [status, ""]);
    assert.match(said.err, /^\S.* .*\n$/);
    assert.doesNotMatch(said.err, /^\{|^ +at /m);
  },
);
