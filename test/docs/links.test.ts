import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { existsSync, globSync, readFileSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, it } from "vitest";
import { anchorsIn, linksIn } from "../support/citations.ts";

const ROOT = join(import.meta.dirname, "../..");
const run = promisify(execFile);

/** The links of every page below `folder` that lead to nothing there; and how many there are. */
function followLinks(folder: string): { readonly links: number; readonly dead: readonly string[] } {
  const pages = globSync("**/*.md", { cwd: folder, exclude: ["**/node_modules/**"] });
  const read = (path: string) => readFileSync(join(folder, path), "utf8");
  const all = pages.flatMap((path) => {
    return linksIn(path, read(path)).map(({ page, anchor }) => ({ path, page, anchor }));
  });
  const dead = all.flatMap(({ path, page, anchor }) => {
    if (!existsSync(join(folder, page))) return [`${path}: ${page} is not there`];
    const found =
      anchor === undefined || !page.endsWith(".md") || anchorsIn(read(page)).has(anchor);
    return found ? [] : [`${path}: ${page} has no #${anchor}`];
  });
  return { links: all.length, dead };
}

describe("the pages of the package", () => {
  let folder: string;

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "tollgate-links-"));
    // No page comes from a build.
    const pack = ["pack", "--ignore-scripts", "--silent", "--pack-destination", folder];
    const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` };
    await run("npm", pack, { cwd: ROOT, env });
    const [file = ""] = (await readdir(folder)).filter((name) => name.endsWith(".tgz"));
    await run("tar", ["-xzf", file], { cwd: folder });
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it("have no link that leads nowhere once they are unpacked", () => {
    const { links, dead } = followLinks(join(folder, "package"));
    assert.ok(links > 250, `${links} links`);
    assert.deepEqual(dead, []);
  });
});
