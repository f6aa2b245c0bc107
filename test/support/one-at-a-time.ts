import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { eventually } from "./poll.ts";

const LOCK = join(import.meta.dirname, "../../node_modules/.cache/build-lock");

/**
 * Does work that no other test process may do at the same time: `npm pack` makes dist/ new, and both
 * tests of the package call it. The lock of a process that is gone is taken away.
 */
export async function buildAlone<T>(work: () => Promise<T>, withinMs = 170_000): Promise<T> {
  const own = `${LOCK}.${process.pid}`;
  await mkdir(own, { recursive: true });
  await writeFile(join(own, "pid"), String(process.pid));
  const take = async () => {
    if (!(await isHeld())) await rm(LOCK, { recursive: true, force: true });
    // Fails where the folder of another process is there, which holds a file.
    await rename(own, LOCK);
  };
  await eventually(take, { withinMs, everyMs: 100 });
  try {
    return await work();
  } finally {
    await rm(LOCK, { recursive: true, force: true });
  }
}

async function isHeld(): Promise<boolean> {
  try {
    process.kill(Number(await readFile(join(LOCK, "pid"), "utf8")), 0);
    return true;
  } catch {
    return false;
  }
}
