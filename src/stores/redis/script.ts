import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { WINDOWS_IN_LUA } from "../quotas/redis/window-fields.ts";

/** A script and the name that EVALSHA calls it by. */
export type Script = { readonly text: string; readonly sha: string };

export function defineScript(text: string): Script {
  return { text, sha: createHash("sha1").update(text).digest("hex") };
}

/** One script of the files of lua/ that are named, behind what all that read accounts share. */
export function accountScript(...files: readonly string[]): Script {
  const texts = ["account", ...files].map((file) => {
    return readFileSync(new URL(`./lua/${file}.lua`, import.meta.url), "utf8");
  });
  return defineScript([WINDOWS_IN_LUA, ...texts].join("\n"));
}
