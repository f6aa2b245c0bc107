import { availableParallelism } from "node:os";
import type { Config } from "../config/config.ts";
import { startProcess } from "./process/gateway-process.ts";
import type { ServedGateway, StartOptions } from "./process/served-gateway.ts";

/**
 * Builds a gateway from a configuration. `tollgate start`, a program that embeds one and the tests
 * all use this function. Rejects with an error in words that names the setting if an address or a
 * file cannot be used.
 */
export async function startGateway(config: Config, options: StartOptions): Promise<ServedGateway> {
  const count = config.workers === "auto" ? availableParallelism() : config.workers;
  if (count === 1) return startProcess(config, options);
  const { startWorkers } = await import("./workers/supervisor.ts");
  return startWorkers(config, count, options);
}
