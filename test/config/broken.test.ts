import assert from "node:assert/strict";
import { dirname } from "node:path";
import { describe, it } from "vitest";
import { readDescription } from "../../src/config/description/openapi.ts";
import { loadConfig } from "../../src/config/load/load.ts";
import { brokenFiles, placed } from "./expected.ts";

const noFile = async () => ({ ok: false, line: 1, why: "there is no such file" }) as const;
const ENVIRONMENT = { SECRET: "hunter2", STRUCTURE: "{ strikes: 1 }", FOUR: "4", ADMIN_TOKEN: "x" };

describe("each broken configuration is told at its place, and nothing else is", () => {
  const files = brokenFiles("broken");
  it("there are files", () => assert.ok(files.length > 100));
  for (const { name, path, mistakes } of files) {
    it(name, async () => {
      assert.ok(mistakes.length > 0, "the file says what to expect");
      const loaded = await loadConfig(path, ENVIRONMENT);
      assert.equal(loaded.ok, false);
      if (loaded.ok) return;
      assert.deepEqual(placed(loaded.mistakes, `${dirname(path)}/`), mistakes);
      for (const { file, message } of loaded.mistakes) {
        assert.equal(file, path);
        assert.doesNotMatch(message, /hunter2|letmein|let me in|abcdefgh/, "no secret is shown");
      }
    });
  }
});

describe("each broken API description is told at its place, and nothing else is", () => {
  for (const { name, text, ...expected } of brokenFiles("broken-descriptions")) {
    it(name, async () => {
      assert.ok(expected.mistakes.length + expected.warnings.length > 0);
      const around = { file: "api.yaml", basePath: "/v1", readFile: noFile };
      const { mistakes, warnings } = await readDescription(text, around);
      assert.deepEqual(placed(mistakes, "").sort(), [...expected.mistakes].sort());
      assert.deepEqual(placed(warnings, "").sort(), [...expected.warnings].sort());
    });
  }
});
