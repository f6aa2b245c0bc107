import { resolve, sep } from "node:path";

/**
 * A name for each path: the shortest end of it that no other one has. The figures of a side are kept
 * by its name. A path that is given twice has a number as well.
 */
export function sideNames(paths: readonly string[]): string[] {
  const parts = paths.map((path) => resolve(path).split(sep).filter(Boolean));
  const end = (of: readonly string[], length: number) => of.slice(-length).join(sep);
  return parts.map((own, i) => {
    const others = parts.filter((other) => other.join(sep) !== own.join(sep));
    let length = 1;
    while (others.some((other) => end(other, length) === end(own, length))) length += 1;
    const before = parts.slice(0, i).filter((other) => other.join(sep) === own.join(sep)).length;
    return before === 0 ? end(own, length) : `${end(own, length)} again (${before + 1})`;
  });
}
