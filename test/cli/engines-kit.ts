import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { it } from "vitest";
import { startProgram } from "../support/gateway/processes.ts";
import { type EngineNode, programOf } from "../support/node-versions.ts";

const ROOT = join(import.meta.dirname, "../..");

/** Reads each source file as Node does, without running it; says which it cannot, and how many. */
const READS_ALL = `
  import { globSync, readFileSync } from "node:fs";
  import { stripTypeScriptTypes } from "node:module";
  import { SourceTextModule } from "node:vm";
  const files = globSync("src/**/*.ts");
  for (const file of files) {
    try { new SourceTextModule(stripTypeScriptTypes(readFileSync(file, "utf8"))); }
    catch (error) { console.log(file + ": " + error.message); }
  }
  console.log(files.length > 200 ? "read" : "found " + files.length);
`;

/** Claims that the sources run on these Nodes, with no word on stderr. */
export function claimsRunsOn(nodes: readonly EngineNode[]): void {
  it.each(nodes)("every source file can be read: $version", async (node) => {
    const args = ["--experimental-vm-modules", "--input-type=module", "--eval", READS_ALL];
    const { stdout, stderr } = await startProgram(programOf(node), args).exited;
    assert.equal(stdout, "read\n", stderr);
  });

  it.each(nodes)(
    "commands, the gateway and the pets say nothing on stderr: $version",
    async (node) => {
      const folder = await mkdtemp(join(tmpdir(), "tollgate-engines-"));
      const start = (...args: string[]) => {
        return startProgram(programOf(node), [join(ROOT, "src/main.ts"), ...args], { cwd: folder });
      };
      const ends = async (...args: string[]) => {
        const { code, stdout, stderr } = await start(...args).exited;
        assert.deepEqual([code, stderr], [0, ""], stdout);
        return stdout;
      };
      try {
        await ends("init", "--yes");
        const file = join(folder, "config/tollgate.yaml");
        const text = (await readFile(file, "utf8")).replace(":8080", ":0");
        await writeFile(file, `${text}admin: { listen: "127.0.0.1:0" }\n`);
        await ends("check");
        assert.match(
          await ends("keys", "create", "--env", "production", "--plan", "free"),
          /_live_/,
        );
        await using gateway = start("start");
        await gateway.line(({ msg }) => msg === "serving");
        const stopped = await gateway.stop();
        assert.deepEqual([stopped.code, stopped.stderr], [0, ""]);
        await using pets = start("pets", "--listen", "127.0.0.1:0", "--data", "pets.db", "--seed");
        await pets.says("127.0.0.1");
        const ended = await pets.stop();
        assert.deepEqual([ended.code, ended.stderr], [0, ""]);
      } finally {
        await rm(folder, { recursive: true, force: true });
      }
    },
  );
}
