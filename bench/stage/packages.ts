import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";

const FOLDER = join(import.meta.dirname, "..");
const LOCK = join(FOLDER, "package-lock.json");
/** npm writes it last. */
const INSTALLED = join(FOLDER, "node_modules/.package-lock.json");

/** Installs what bench/package.json names, unless it is there; throws when npm cannot. */
export function installPackages(say: (text: string) => void): void {
  if (existsSync(INSTALLED) && statSync(INSTALLED).mtimeMs >= statSync(LOCK).mtimeMs) return;
  say("installing the packages of bench/package.json");
  const { status, stderr } = spawnSync("npm", ["ci", "--ignore-scripts"], {
    cwd: FOLDER,
    encoding: "utf8",
    stdio: ["ignore", "ignore", "pipe"],
  });
  if (status !== 0) throw new Error(`Cannot install the packages of bench/package.json: ${stderr}`);
}
