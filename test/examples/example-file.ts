import { readFileSync } from "node:fs";
import { join } from "node:path";

const EXAMPLES = join(import.meta.dirname, "../../examples");

export function readExample(path: string): string {
  return readFileSync(join(EXAMPLES, path), "utf8");
}

/** The text with each of these in another's place; fails where one is not in it. */
export function replaceAll(text: string, places: Readonly<Record<string, string>>): string {
  let changed = text;
  for (const [from, to] of Object.entries(places)) {
    if (!changed.includes(from)) throw new Error(`the example does not have ${from}`);
    changed = changed.replaceAll(from, to);
  }
  return changed;
}
