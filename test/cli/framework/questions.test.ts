import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { it } from "vitest";
import { needing } from "../../support/needing.ts";
import { jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

const MAIN = join(import.meta.dirname, "../../../src/main.ts");
const AT_A_TERMINAL = `import pty, sys; pty.spawn(["sh", "-c", sys.argv[1]])`;

it(
  "a question is asked at a terminal also where stdout is a pipe",
  needing("python3"),
  async () => {
    await using folder = await openFolder();
    const where = ["--config", await writeConfig(folder)];
    const create = ["keys", "create", "--env", "production", "--plan", "free", "--account", "acme"];
    assert.equal((await runVerb([...create, ...where])).status, 0);
    const set = ["accounts", "set", "--on", "free", "--plan", "pro", ...where].join(" ");
    const command = `${process.execPath} ${MAIN} ${set} | cat`;
    const child = spawn("python3", ["-c", AT_A_TERMINAL, command], { stdio: "pipe" });
    child.stdout.on("data", (piece: Buffer) => {
      if (piece.includes("[y/N]")) child.stdin.write("n\n");
    });
    const said = await text(child.stdout);
    assert.match(said, /Change 1 account on plan free\? \[y\/N\]: .*No account is changed/s);
    assert.match((await runVerb(["accounts", "show", "acme", ...where])).out, /free/);
  },
);

it(
  "a question that Ctrl-C answers ends the verb as SIGINT does, with 130",
  needing("python3"),
  async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "new.yaml");
    const command = `${process.execPath} ${MAIN} init --config ${file}; echo ended with $?`;
    const child = spawn("python3", ["-c", AT_A_TERMINAL, command], { stdio: "pipe" });
    child.stdout.on("data", (piece: Buffer) => {
      if (piece.includes("Your backend")) child.stdin.write("\x03");
    });
    assert.match(await text(child.stdout), /\nended with 130\r?\n$/);
    assert.equal(existsSync(file), false);
  },
);

it("a key is asked for at a terminal, and not shown there", needing("python3"), async () => {
  await using folder = await openFolder();
  const where = ["--config", await writeConfig(folder)];
  const create = ["keys", "create", "--env", "production", "--plan", "free", "--json", ...where];
  const { id, key } = jsonOf<{ id: string; key: string }>(await runVerb(create));
  const command = `${process.execPath} ${MAIN} keys find - ${where.join(" ")}`;
  const child = spawn("python3", ["-c", AT_A_TERMINAL, command], { stdio: "pipe" });
  child.stdout.on("data", (piece: Buffer) => {
    if (piece.includes("Key: ")) child.stdin.write(`${key}\r`);
  });
  const said = await text(child.stdout);
  assert.match(said, new RegExp(`^Key: \\r?\\n${id}\\r?\\n`));
  assert.ok(!said.includes(key), said);
});
