import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { it } from "vitest";
import { openFolder, runVerb } from "../kit.ts";

const VERBS = [
  ...["accounts list", "accounts show a", "accounts set a --plan pro", "accounts suspend a"],
  ...["accounts resume a", "accounts reset a", "audit --log x", "bans list", "bans lift a"],
  ...["bans add a --for 1h", "bans why a", "check", "deprecations", "explain r", "keys list"],
  ...["keys create --env e --plan p", "keys show k", "keys rotate k", "keys revoke k"],
  ...["keys set k --name n", "keys export", "keys import -", "plans list", "reload", "start"],
  ...["status", "status --all", "usage", "usage a", "usage --days 1"],
];

it.for(VERBS)(
  "%s ends with 78 and the place where a file is no YAML, and prints nothing",
  async (verb) => {
    await using folder = await openFolder();
    const file = join(folder.path, "tollgate.yaml");
    await writeFile(file, "plans: {\n");
    const said = await runVerb([...verb.split(" "), "--config", file], { stdin: "" });
    assert.deepEqual([said.status, said.out], [78, ""], said.err);
    assert.ok(said.err.startsWith(`${file}:`), said.err);
  },
);
