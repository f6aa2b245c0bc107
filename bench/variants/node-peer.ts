import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Server, startServer } from "../stage/server.ts";
import { LIMITS, type StartOptions } from "./variant.ts";

/** A program of bench/peers, which are JavaScript as users of those libraries write it. */
export function nodePeer(name: string, settings: Readonly<Record<string, unknown>> = {}) {
  return async (options: StartOptions): Promise<Server> => {
    const { directory, port } = options;
    const file = join(directory, "options.json");
    const logFile = join(directory, "access.log");
    await writeFile(file, JSON.stringify({ ...options, ...settings, limits: LIMITS, logFile }));
    return startServer({
      command: [process.execPath, join(import.meta.dirname, `../peers/${name}.mjs`), file],
      port,
      logFile: join(directory, "out.log"),
      env: { NODE_ENV: "production" },
    });
  };
}
