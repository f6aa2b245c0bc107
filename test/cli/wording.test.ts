import assert from "node:assert/strict";
import { mkdtemp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, it } from "vitest";
import { startProgram, startTollgate } from "../support/gateway/processes.ts";
import { configText, freePorts, openFolder, runVerb, writeConfig } from "./kit.ts";

/** A machine that is busy with other tests takes its time. */
const START_MS_MAX = 30_000;

describe("the words for a newcomer", () => {
  it("name an environment variable that is not set once, and why two windows are too many", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "tollgate.yaml");
    const text = configText({ more: "unauthenticated: { minute: 5, hour: 10 }\n" });
    await writeFile(file, text.replace("store: memory", `store: \${NO_SUCH_STORE}`));
    const { status, err } = await runVerb(["check", file]);
    assert.equal(status, 78);
    const [first = "", second = "", ...others] = err.trimEnd().split("\n");
    assert.deepEqual(others, []);
    assert.match(first, /the environment has no NO_SUCH_STORE; set it, or give a default/);
    assert.match(second, /a map with exactly one window: the value is a map with minute, hour$/);
  });

  it("of a working folder that was removed are no words of Node's", async () => {
    await using folder = await openFolder();
    const main = new URL("../../src/main.ts", import.meta.url).pathname;
    const script = `cd "$1" && rmdir "$1" && exec "$2" "$3" check`;
    const gone = await mkdtemp(join(folder.path, "gone-"));
    const args = ["-c", script, "sh", gone, process.execPath, main];
    await using command = startProgram("sh", args);
    const { code, stderr } = await command.exited;
    const words = "The working folder is not there any more: go to one that is\n";
    assert.deepEqual([code, stderr], [1, words]);
  });

  it("of a ban that nobody has end where they are said", async () => {
    await using folder = await openFolder();
    const [admin = 0] = await freePorts(1);
    const file = await writeConfig(folder, { admin });
    const issue = ["keys", "create", "--env", "production", "--plan", "free", "--account", "acme"];
    assert.equal((await runVerb([...issue, "--config", file])).status, 0);
    await using gateway = startTollgate(["start", "--config", file]);
    await gateway.line(({ msg }) => msg === "serving", START_MS_MAX);
    for (const [id, expected] of [
      ["nobody", 'Cannot find "nobody": no key or account has this ID\n'],
      ["a/../b", 'Cannot find "a/../b": no key or account has this ID\n'],
      ["acme", "Account acme is not banned\n"],
    ] as const) {
      const lifted = await runVerb(["bans", "lift", id, "--config", file]);
      assert.deepEqual([lifted.status, lifted.out, lifted.err], [1, "", expected]);
    }
  });

  it("of a warning stand once in its line, beside its place", async () => {
    await using folder = await openFolder();
    const paths = "paths:\n  /old: { get: { deprecated: true, responses: {} } }\n";
    await writeFile(join(folder.path, "api.yaml"), `openapi: 3.1.0\n${paths}`);
    const file = join(folder.path, "tollgate.yaml");
    await writeFile(file, configText().replaceAll(/api: .*/g, "api: ./api.yaml"));
    await using gateway = startTollgate(["start", "--config", file]);
    const { why, line } = await gateway.line(({ msg }) => msg === "config_warning", START_MS_MAX);
    assert.equal(line, 3);
    assert.doesNotMatch(String(why), /api\.yaml|warning/);
    const { err } = await runVerb(["check", file]);
    for (const told of err.trimEnd().split("\n")) {
      assert.equal(told.split("warning: ").length, 2, told);
      assert.equal(told.split("api.yaml").length, 2, told);
    }
  });
});
