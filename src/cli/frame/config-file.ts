import type { Config } from "../../config/config.ts";
import { mistakeLine } from "../../config/file/place.ts";
import { fail, WRONG_CONFIGURATION } from "../../server/process/process-door.ts";
import type { Terminal } from "./terminal.ts";
import type { Call } from "./verb.ts";

export const DEFAULT_FILE = "config/tollgate.yaml";

export function configFileOf(call: Call): string {
  return call.text("config") ?? DEFAULT_FILE;
}

/** The configuration, or the exit status after every mistake was said. */
export async function readConfig(call: Call, terminal: Terminal): Promise<Config | number> {
  const { loadConfig } = await import("../../config/load.ts");
  const loaded = await loadConfig(configFileOf(call), terminal.env);
  if (loaded.ok) return loaded.config;
  return fail(terminal, WRONG_CONFIGURATION, loaded.mistakes.map(mistakeLine).join("\n"));
}
