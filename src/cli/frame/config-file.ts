import type { Config } from "../../config/config.ts";
import { mistakeLine } from "../../config/file/place.ts";
import { holdsKey } from "../../core/keys/key.ts";
import { fail, WRONG_CONFIGURATION, WRONG_USAGE } from "../../server/process/process-door.ts";
import type { Terminal } from "./terminal.ts";
import type { Call } from "./verb.ts";

export const DEFAULT_FILE = "config/tollgate.yaml";

/** Anyone who can list the processes has read the key by now; the message does not repeat it. */
export const WHOLE_KEY =
  "An argument holds a whole key, which others can see in the list of processes: give its ID, or the key by stdin, as in `tollgate keys find - < FILE`. Rotate it if others use this machine";

export function configFileOf(call: Call): string {
  return call.text("config") ?? DEFAULT_FILE;
}

/** The configuration, or the exit status after every mistake was said. */
export async function readConfig(call: Call, terminal: Terminal): Promise<Config | number> {
  const { loadConfig } = await import("../../config/load.ts");
  const loaded = await loadConfig(configFileOf(call), terminal.env);
  if (loaded.ok) {
    const { config } = loaded;
    const isKey = call.words.some((word) => holdsKey(word, config.foreignKeys));
    return isKey ? fail(terminal, WRONG_USAGE, WHOLE_KEY) : config;
  }
  return fail(terminal, WRONG_CONFIGURATION, loaded.mistakes.map(mistakeLine).join("\n"));
}
