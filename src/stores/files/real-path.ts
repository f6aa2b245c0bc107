import { readlink, realpath } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";

/** Links that lead in a circle end here. */
const LINKS_MAX = 40;

/**
 * Where a file is, or will be, by its one true path: all who write it lock and replace the same
 * file, whatever links they come through. The last link may dangle.
 */
export async function realPathOf(path: string): Promise<string> {
  let wanted = resolve(path);
  for (let links = 0; links < LINKS_MAX; links++) {
    const whole = await realpath(wanted).catch(nothing);
    if (whole !== undefined) return whole;
    const target = await readlink(wanted).catch(nothing);
    if (target === undefined) break;
    wanted = resolve(dirname(wanted), target);
  }
  const folder = await realpath(dirname(wanted)).catch(nothing);
  return folder === undefined ? wanted : join(folder, basename(wanted));
}

function nothing(): undefined {}
