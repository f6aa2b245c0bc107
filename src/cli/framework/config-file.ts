import type { Config } from "../../config/config.ts";
import { formatMistake } from "../../config/file/mistake.ts";
import { containsKey } from "../../core/keys/key.ts";
import { EXIT_CONFIG, fail } from "../../server/process/process-context.ts";
import type { Terminal } from "./terminal.ts";
import type { Invocation } from "./verb.ts";

export const DEFAULT_FILE = "config/tollgate.yaml";

/** Others may have seen the key in the list of processes. The message does not repeat it. */
export const KEY_IN_ARGUMENT =
  "An argument holds a whole key, which others can see in the list of processes: give its ID, or the key by stdin, as in `tollgate keys find - < FILE`. Rotate it if others use this machine";

export function configFileOf(invocation: Invocation): string {
  return invocation.text("config") ?? DEFAULT_FILE;
}

/** Whether an argument holds a whole key, of this gateway or of another system. */
export function holdsKey({ words }: Invocation, { foreignKeys }: Config): boolean {
  return words.some((word) => containsKey(word, foreignKeys));
}

/** The configuration, or the exit status after every mistake was printed. */
export async function readConfig(
  invocation: Invocation,
  terminal: Terminal,
): Promise<Config | number> {
  const { loadConfig } = await import("../../config/load/load.ts");
  const loaded = await loadConfig(configFileOf(invocation), terminal.env);
  if (loaded.ok) return loaded.config;
  return fail(terminal, EXIT_CONFIG, loaded.mistakes.map(formatMistake).join("\n"));
}
