import type { Config } from "../../config/config.ts";
import { formatMistake } from "../../config/file/mistake.ts";
import { containsKey } from "../../core/keys/key.ts";
import { EXIT_CONFIG, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import type { Terminal } from "./terminal.ts";
import type { Invocation } from "./verb.ts";

export const DEFAULT_FILE = "config/tollgate.yaml";

/**
 * Other users may have seen the key in the list of processes by now. The message does not repeat
 * it.
 */
export const KEY_IN_ARGUMENT =
  "An argument holds a whole key, which others can see in the list of processes: give its ID, or the key by stdin, as in `tollgate keys find - < FILE`. Rotate it if others use this machine";

export function configFileOf(call: Invocation): string {
  return call.text("config") ?? DEFAULT_FILE;
}

/** The configuration, or the exit status after every mistake was printed. */
export async function readConfig(call: Invocation, terminal: Terminal): Promise<Config | number> {
  const { loadConfig } = await import("../../config/load/load.ts");
  const loaded = await loadConfig(configFileOf(call), terminal.env);
  if (loaded.ok) {
    const { config } = loaded;
    const isKey = call.words.some((word) => containsKey(word, config.foreignKeys));
    return isKey ? fail(terminal, EXIT_USAGE, KEY_IN_ARGUMENT) : config;
  }
  return fail(terminal, EXIT_CONFIG, loaded.mistakes.map(formatMistake).join("\n"));
}
