import { spawnSync } from "node:child_process";
import { cpSync, globSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";

/**
 * Makes dist/, what the package on the registry contains: Node strips types nowhere below
 * node_modules, so an installed Tollgate runs JavaScript. Files that the code reads go along.
 */
const ROOT = join(import.meta.dirname, "..");
const DIST = join(ROOT, "dist");

rmSync(DIST, { recursive: true, force: true });
// Comments are for those who read the sources. A program that imports this one sees the declarations.
const failed = ["--removeComments --declaration false", "--emitDeclarationOnly"].find((options) => {
  const args = ["-p", "tsconfig.build.json", ...options.split(" ")];
  return spawnSync("tsc", args, { cwd: ROOT, stdio: "inherit" }).status !== 0;
});
for (const file of globSync("**/*.{lua,html,css,js,svg}", { cwd: join(ROOT, "src") })) {
  cpSync(join(ROOT, "src", file), join(DIST, file));
}
const reached = declarationsFrom(join(DIST, "server/embed.d.ts"));
for (const file of globSync("**/*.d.ts", { cwd: DIST })) {
  if (!reached.has(join(DIST, file))) rmSync(join(DIST, file));
}
process.exitCode = failed === undefined ? 0 : 1;

/** The declarations that a program sees that imports this one: the package exports no other. */
function declarationsFrom(entry: string): ReadonlySet<string> {
  const found = new Set([entry]);
  for (const file of found) {
    for (const [, path = ""] of readFileSync(file, "utf8").matchAll(
      /["'](\.{1,2}\/[^"']+)\.[jt]s["']/g,
    )) {
      found.add(`${join(dirname(file), path)}.d.ts`);
    }
  }
  return found;
}
