import { readlinkSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

/** Whether two absolute paths lead to one file, through links too. It may not exist yet. */
export function isSameFile(one: string, other: string): boolean {
  if (realPath(one) === realPath(other)) return true;
  const [first, second] = [inodeOf(one), inodeOf(other)];
  // A file that was replaced meanwhile may have left its inode to the other one.
  return first !== undefined && first === second && first === inodeOf(one);
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

/** The most links to what is not there: such links may lead in a circle. */
const LINKS_MAX = 40;

/** The path without links. What does not exist yet is where its links, or those of its folder, lead. */
export function realPath(path: string, linksLeft = LINKS_MAX): string {
  try {
    return realpathSync(path);
  } catch {
    const parent = dirname(path);
    if (parent === path) return path;
    const folder = realPath(parent, linksLeft);
    const target = linksLeft > 0 ? linkAt(path) : undefined;
    if (target !== undefined) return realPath(resolve(folder, target), linksLeft - 1);
    return join(folder, basename(path));
  }
}

function linkAt(path: string): string | undefined {
  try {
    return readlinkSync(path);
  } catch {
    return undefined;
  }
}
