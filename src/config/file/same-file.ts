import { realpathSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";

/** Whether two absolute paths lead to one file, through links too. It may not exist yet. */
export function isSameFile(one: string, other: string): boolean {
  if (realPath(one) === realPath(other)) return true;
  const [first, second] = [inodeOf(one), inodeOf(other)];
  return first !== undefined && first === second;
}

/** A hard link has a path of its own. */
function inodeOf(path: string): string | undefined {
  try {
    const { dev, ino } = statSync(path, { bigint: true });
    return `${dev} ${ino}`;
  } catch {
    return undefined;
  }
}

/** The path without links. What does not exist yet is where the links of its folder lead. */
export function realPath(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const folder = dirname(path);
    return folder === path ? path : join(realPath(folder), basename(path));
  }
}
