import assert from "node:assert/strict";
import { it } from "vitest";
import { idOfCopy, versionOfCopy } from "../../../../src/stores/keys/redis/copy-id.ts";

it("a version names a file of records as an id, and other ids name no version", () => {
  const id = idOfCopy("12.0af3", "here");
  assert.deepEqual(versionOfCopy(id, "here"), { version: "12.0af3", isElsewhere: false });
  assert.deepEqual(versionOfCopy(id, "there"), { version: "12.0af3", isElsewhere: true });
  for (const other of [undefined, "", "3", "0af312", "v1", "12v0af3"]) {
    assert.deepEqual(versionOfCopy(other, "here"), { version: "", isElsewhere: false });
  }
  for (const version of ["", "12", "a.b", "1.2.3", "1. f"]) {
    assert.equal(idOfCopy(version, "here"), undefined, "nothing names it");
  }
});
