import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { satisfiesEngines } from "../../src/cli/node-version.ts";
import { startNode, startProgram } from "../support/gateway/processes.ts";
import { ENGINE_VERSIONS, engineNodes, programOf } from "../support/node-versions.ts";

const ROOT = join(import.meta.dirname, "../..");
const RANGE = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")).engines.node;

describe("the range of Node in package.json", () => {
  const FITS = ["v22.23.2", "v22.99.0", "v24.18.1", "v24.20.0", "v26.5.1", "v26.10.0", "v27.0.0"];
  const DOES_NOT = ["v20.19.0", "v22.23.1", "v23.0.0", "v24.18.0", "v25.9.0", "v26.5.0"];
  it("holds both sides of every edge", () => {
    assert.deepEqual(
      FITS.filter((version) => !satisfiesEngines(version, RANGE)),
      [],
    );
    assert.deepEqual(
      DOES_NOT.filter((version) => satisfiesEngines(version, RANGE)),
      [],
    );
  });

  it("takes partial versions and pre-releases by their numbers, and refuses what it cannot read", () => {
    assert.equal(satisfiesEngines("v23.0.0-nightly1", ">=22.1 <23"), false);
    assert.equal(satisfiesEngines("v22.1.0", ">=22.1 <23"), true);
    assert.throws(() => satisfiesEngines("v22.1.0", "^22"), /Cannot read \^22/);
  });
});

describe("started on another Node", () => {
  it("says one line and ends with 78, whatever was asked for", async () => {
    const forged = `Object.defineProperty(process, "version", { value: "v25.1.0" })`;
    const url = `data:text/javascript,${encodeURIComponent(forged)}`;
    const running = startNode(["--import", url, join(ROOT, "src/main.ts"), "--version"]);
    const { code, stdout, stderr } = await running.exited;
    assert.equal(code, 78);
    assert.equal(stdout, "");
    assert.equal(stderr, `Tollgate needs Node ${RANGE}: this is v25.1.0\n`);
  });
});

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
const nodes = await engineNodes();

describe("on the oldest and the newest Node of each line in package.json", () => {
  it("both ends of each line are tested", () => {
    assert.deepEqual(
      ENGINE_VERSIONS.filter((version) => !satisfiesEngines(`v${version}`, RANGE)),
      [],
    );
    const lines = RANGE.split("||").length;
    assert.equal(new Set(ENGINE_VERSIONS.map((version) => version.split(".")[0])).size, lines);
    assert.ok(ENGINE_VERSIONS.length > lines, String(ENGINE_VERSIONS));
  });

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
});
