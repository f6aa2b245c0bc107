import { realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/** Whether two absolute paths lead to one file, through links too. It may not exist yet. */
export function isSameFile(one: string, other: string): boolean {
  return realPath(one) === realPath(other);
}

function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const folder = dirname(path);
    return folder === path ? path : join(realPath(folder), basename(path));
  }
}
