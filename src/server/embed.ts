import { formatMistake } from "../config/file/mistake.ts";
import { loadConfig } from "../config/load/load.ts";
import { createLog } from "../telemetry/log/log.ts";
import type { GatewayHandle } from "./process/gateway-handle.ts";
import { GATEWAY_ID } from "./process/identity.ts";
import { startGateway } from "./start.ts";

export type EmbedOptions = {
  /** Path of the configuration file; paths inside it are relative to it. */
  readonly configFile: string;
  /** The variables that `${NAME}` in the file stands for. Default: none. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Takes each log line, one JSON object that ends in a newline. Default: the lines are dropped. */
  readonly log?: (line: string) => void;
};

export type EmbeddedGateway = GatewayHandle;

/**
 * Starts a gateway inside the process that calls this, and resolves when it listens. The process
 * keeps its signals, its stdout and its exit: `reload()` and `stop()` of the result are for it to
 * call. Rejects with an error in words when the configuration has mistakes (each as
 * FILE:LINE:COLUMN: message), when it wants several workers, or when an address is taken.
 */
export async function start(options: EmbedOptions): Promise<EmbeddedGateway> {
  const { configFile, env = {}, log: write = () => {} } = options;
  const load = () => loadConfig(configFile, env);
  const loaded = await load();
  if (!loaded.ok) throw new Error(loaded.mistakes.map(formatMistake).join("\n"));
  const { config } = loaded;
  if (config.workers !== 1) {
    throw new Error(
      `workers is ${config.workers}: an embedded gateway runs in the process that starts it. ` +
        "Set workers: 1, or run `tollgate start`.",
    );
  }
  const log = createLog({ write }, config.log.level, GATEWAY_ID);
  for (const { message: why, ...place } of loaded.warnings) {
    log.warn("config_warning", { ...place, why });
  }
  return startGateway(config, { log, load });
}
