import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { globSync, readFileSync } from "node:fs";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, it } from "vitest";
import { WINDOW_NAMES } from "../src/core/quota/windows.ts";
import { recipesOf, STEPS, type Step } from "./support/recipes.ts";
import { useRedis } from "./support/redis/redis-of-file.ts";

const ROOT = join(import.meta.dirname, "..");
const execute = promisify(execFile);
const { server } = await useRedis();

const contributing = await readFile(join(ROOT, "CONTRIBUTING.md"), "utf8");
const recipes = recipesOf(contributing);
let copy = "";

beforeAll(async () => {
  copy = await mkdtemp(join(tmpdir(), "tollgate-recipes-"));
  for (const name of [
    "src",
    "config",
    "docs",
    "examples",
    "package.json",
    "scripts",
    "test/support",
  ]) {
    await cp(join(ROOT, name), join(copy, name), { recursive: true });
  }
  await symlink(join(ROOT, "node_modules"), join(copy, "node_modules"));
  const { compilerOptions } = JSON.parse(await readFile(join(ROOT, "tsconfig.json"), "utf8"));
  const project = { compilerOptions, include: ["src", "scripts", "test/support"] };
  await writeFile(join(copy, "tsconfig.json"), JSON.stringify(project));

  for (const step of Object.values(STEPS).flat()) await take(step);
});
afterAll(() => rm(copy, { recursive: true }));

async function take({ file, change }: Step): Promise<void> {
  const path = join(copy, file);
  const before = await readFile(path, "utf8").catch(() => "");
  const after = change(before);
  assert.notEqual(after, before, `${file} has what the step changes`);
  await writeFile(path, after);
}

const run = (...args: readonly string[]) =>
  execute(process.execPath, args, { cwd: copy, timeout: 100_000 });

describe("A recipe of CONTRIBUTING.md", () => {
  it("is followed by a test, every one", () => {
    assert.deepEqual([...recipes.keys()].sort(), Object.keys(STEPS).sort());
  });

  for (const [name, steps] of Object.entries(STEPS)) {
    it(`names every file of the source that it takes: ${name}`, () => {
      const named = new Set(recipes.get(name));
      const touched = steps.filter(({ judged }) => !judged).map(({ file }) => file);
      assert.deepEqual(
        touched.filter((file) => !named.has(file)),
        [],
        "files that the recipe leaves out",
      );
      const source = [...named].filter((file) => file.startsWith("src/"));
      // A counter by labels is a further case of the same recipe.
      const further = /request-metrics\.ts$/;
      assert.deepEqual(
        source.filter((file) => !touched.includes(file) && !further.test(file)),
        [],
        "files that the recipe names with nothing to change",
      );
    });
  }

  it("of a window names every list of windows: there is one", () => {
    const listed = /"(?:WINDOWS)"[,\s|\]:]+"(?:WINDOWS)"/.source.replaceAll(
      "WINDOWS",
      WINDOW_NAMES.join("|"),
    );
    const files = globSync("src/**/*.{ts,js,lua,html}", { cwd: ROOT });
    assert.ok(files.length > 300);
    const text = (file: string) => readFileSync(join(ROOT, file), "utf8");
    assert.deepEqual(
      files.filter((file) => new RegExp(listed).test(text(file))),
      [],
    );
    assert.match('["minute", "day"]', new RegExp(listed));
  });

  it("leaves nothing to the compiler", async () => {
    const compiler = join(ROOT, "node_modules/typescript/bin/tsc");
    const said = await run(compiler, "-p", copy).catch(({ stdout }) => ({ stdout }));
    assert.equal(said.stdout, "");
  });

  it("of a window makes it work in plans, Lua, memory, fields, page, verbs and generated pages", async () => {
    const { stdout } = await run("test/support/recipe-probe.ts", "window", server.url);
    assert.deepEqual(JSON.parse(stdout), {
      schema: true,
      generated: true,
      publicPlan: true,
      limitOption: true,
      page: "9 a fortnight",
      differs: 0,
      headers: ["2", "0", "fortnight"],
      usage: ["fortnight", 2, 2],
    });
  });

  it("of a response field, a refusal and a metric shows them on the wire", async () => {
    const { stdout } = await run("test/support/recipe-probe.ts", "wire", server.url);
    assert.deepEqual(JSON.parse(stdout), {
      field: "7",
      refusal: [418, "tea_time"],
      metric: true,
      page: true,
    });
  });

  it("of a verb makes it run, and stand in the help", async () => {
    const { stdout } = await run("src/main.ts", "brew");
    assert.equal(stdout, "brewed\n");
    const help = await run("src/main.ts", "help");
    assert.match(help.stdout, /^ {2}brew +brews$/m);
  });
});
