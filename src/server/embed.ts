import { formatMistake } from "../config/file/mistake.ts";
import { loadConfig } from "../config/load/load.ts";
import { loadConfigAside } from "../config/load/load-aside.ts";
import { createLog } from "../telemetry/log/log.ts";
import type { GatewayHandle } from "./process/gateway-handle.ts";
import { newGatewayName } from "./process/identity.ts";
import { logWarnings } from "./process/log-warnings.ts";
import { startGateway } from "./start.ts";

export type EmbedOptions = {
  /** Path of the configuration file. Paths in the file are relative to it. */
  readonly configFile: string;
  /** The variables for `${NAME}` in the file. Default: none. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /**
   * Called with each log line, one JSON object that ends in a newline. Default: the lines are
   * dropped.
   */
  readonly log?: (line: string) => void;
};

export type EmbeddedGateway = GatewayHandle;

/**
 * Starts a gateway inside the calling process, and resolves when it listens. The process keeps its
 * signals, its stdout and its exit: it calls `reload()` and `stop()` of the result itself. Rejects
 * with an error in words when the configuration has mistakes (each as FILE:LINE:COLUMN: message),
 * when it wants several workers, when an address is taken, or when the options are not those of
 * EmbedOptions. If `log` throws or rejects, its line is lost and nothing else.
 */
export async function start(options: EmbedOptions): Promise<EmbeddedGateway> {
  const wrong = optionsError(options);
  if (wrong !== undefined) throw new TypeError(wrong);
  const { configFile, env = {}, log: write = () => {} } = options;
  const loaded = await loadConfig(configFile, env, { forStart: true });
  if (!loaded.ok) throw new Error(loaded.mistakes.map(formatMistake).join("\n"));
  const { config } = loaded;
  if (config.workers !== 1) {
    throw new Error(
      `workers is ${config.workers}: an embedded gateway runs in the process that starts it. ` +
        "Set workers: 1, or run `tollgate start`.",
    );
  }
  const gateway = newGatewayName();
  const log = createLog({ write: harmless(write) }, config.log.level, gateway);
  logWarnings(log, loaded.warnings);
  return startGateway(config, { log, gateway, load: () => loadConfigAside(config.file, env) });
}

const OPTIONS = ["configFile", "env", "log"];
const USAGE = 'start({ configFile: "config/tollgate.yaml" })';

/** Why the options are invalid, for a caller without types; undefined if they are valid. */
function optionsError(options: unknown): string | undefined {
  if (typeof options !== "object" || options === null) {
    return `Cannot start without options: give the configuration, as in ${USAGE}`;
  }
  const given = options as Readonly<Record<string, unknown>>;
  const unknown = Object.keys(given).filter((name) => !OPTIONS.includes(name));
  if (unknown.length > 0) {
    return `Cannot start with the option ${unknown.join(", ")}: the options are ${OPTIONS.join(", ")}`;
  }
  const { configFile, env, log } = given;
  if (typeof configFile !== "string" || configFile === "") {
    return `Cannot start without configFile, the path of the configuration, as in ${USAGE}`;
  }
  if (env !== undefined && (typeof env !== "object" || env === null)) {
    return "Cannot start with this env: it must be an object such as process.env";
  }
  if (log !== undefined && typeof log !== "function") {
    return "Cannot start with this log: it must be a function that takes a line";
  }
  return undefined;
}

/** Wraps the program's own function, so that its errors do not fail requests. */
function harmless(write: (line: string) => void): (line: string) => void {
  return (line) => {
    // The line is lost: there is no other place to report it.
    const lose = () => {};
    try {
      const written: unknown = write(line);
      if (written instanceof Promise) written.catch(lose);
    } catch {
      lose();
    }
  };
}
