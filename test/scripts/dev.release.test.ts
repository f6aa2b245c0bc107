import assert from "node:assert/strict";
import { appendFile, cp, mkdtemp, readFile, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "vitest";
import { freePorts, openFolder, writeConfig } from "../cli/kit.ts";
import { startProgram } from "../support/gateway/processes.ts";
import { eventually } from "../support/poll.ts";

const ROOT = join(import.meta.dirname, "../..");

/** The sources in a folder of their own: what is changed there disturbs no other test. */
async function copyOfSources(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "tollgate-dev-"));
  for (const name of ["src", "package.json", "tsconfig.json"]) {
    await cp(join(ROOT, name), join(folder, name), { recursive: true });
  }
  await symlink(join(ROOT, "node_modules"), join(folder, "node_modules"));
  return folder;
}

/** The script without npm: the shell in between would keep signals for itself. */
async function wordsOfScript(): Promise<[program: string, ...args: string[]]> {
  const { scripts } = JSON.parse(await readFile(join(ROOT, "package.json"), "utf8"));
  const [program, ...args] = scripts.dev.replaceAll("'", "").split(" ");
  return [join(ROOT, "node_modules/.bin", program), ...args];
}

it("npm run dev is npm start, started again when a source or a script of Redis changes", async () => {
  const checkout = await copyOfSources();
  await using folder = await openFolder();
  const [production, staging, productionUpstream, stagingUpstream, admin] = (await freePorts(
    5,
  )) as [number, number, number, number, number];
  const ports = { production, staging, productionUpstream, stagingUpstream, admin };
  const file = await writeConfig(folder, ports);
  const [program, ...args] = await wordsOfScript();
  const dev = startProgram(program, [...args, "--config", file], { cwd: checkout });
  try {
    const started = (times: number) =>
      eventually(
        () => {
          const all = dev.lines().filter(({ msg }) => msg === "serving");
          assert.equal(all.length, times, dev.stdout() + dev.stderr());
        },
        { withinMs: 60_000 },
      );
    await started(1);
    await appendFile(join(checkout, "src/gateway/handle.ts"), "\n");
    await started(2);
    await appendFile(join(checkout, "src/stores/quotas/redis/lua/decide.lua"), "\n");
    await started(3);
    assert.equal((await fetch(`http://127.0.0.1:${admin}/livez`)).status, 200);
  } finally {
    await dev.stop();
    await rm(checkout, { recursive: true, force: true });
  }
});
