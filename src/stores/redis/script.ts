import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

/** A script and the name that EVALSHA calls it by. */
export type Script = { readonly text: string; readonly sha: string };

export function script(text: string): Script {
  return { text, sha: createHash("sha1").update(text).digest("hex") };
}

export function read(file: string): string {
  return readFileSync(new URL(file, import.meta.url), "utf8");
}
