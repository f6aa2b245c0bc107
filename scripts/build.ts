import { spawnSync } from "node:child_process";
import { cpSync, globSync, rmSync } from "node:fs";
import { join } from "node:path";

/**
 * Makes dist/, what the package on the registry contains: Node strips types nowhere below
 * node_modules, so an installed Tollgate runs JavaScript. Files that the code reads go along.
 */
const ROOT = join(import.meta.dirname, "..");

rmSync(join(ROOT, "dist"), { recursive: true, force: true });
const { status } = spawnSync("tsc", ["-p", "tsconfig.build.json"], { cwd: ROOT, stdio: "inherit" });
for (const file of globSync("**/*.{lua,html,css,js,svg}", { cwd: join(ROOT, "src") })) {
  cpSync(join(ROOT, "src", file), join(ROOT, "dist", file));
}
process.exitCode = status ?? 1;
