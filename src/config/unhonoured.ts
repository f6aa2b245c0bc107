import type { Findings } from "./file/findings.ts";
import { isMap, type Path } from "./file/place.ts";

/**
 * Settings that are read and have no effect yet, as paths with `*` for any name. Whoever makes one
 * work removes it here: nobody may rely on a limit that does not hold.
 */
const UNHONOURED: readonly string[] = ["history"];

/** Warns of each setting in the file that is not off and has no effect. */
export function warnOfUnhonoured(findings: Findings): void {
  for (const pattern of UNHONOURED) {
    for (const path of matching(findings.tree.value, pattern.split("."))) warn(findings, path);
  }
}

function warn(findings: Findings, path: Path): void {
  findings.warning(
    path,
    `${String(path.at(-1))} has no effect in this version: nothing enforces it`,
  );
}

function matching(value: unknown, [part, ...rest]: readonly string[]): Path[] {
  if (part === undefined) return value === "off" || value === false ? [] : [[]];
  if (!isMap(value)) return [];
  const names = part === "*" ? Object.keys(value) : Object.hasOwn(value, part) ? [part] : [];
  return names.flatMap((name) => matching(value[name], rest).map((path) => [name, ...path]));
}
