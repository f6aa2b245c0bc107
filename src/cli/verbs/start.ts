import { configFileOf } from "../framework/config-file.ts";
import { prettyLogFormatter } from "../framework/pretty-log.ts";
import { CONFIG, JSON_LINES, type Verb } from "../framework/verb.ts";

/** Prints only JSON lines on stdout; if stdout is a terminal, lines for people. */
export const start: Verb = {
  name: "start",
  usage: "[--config FILE] [--json]",
  summary: "run the gateway",
  options: [CONFIG, JSON_LINES],
  example: "start --config config/tollgate.yaml",
  args: [],
  async run(invocation, terminal) {
    const { serve } = await import("../../server/serve.ts");
    const file = configFileOf(invocation);
    const format = invocation.flag("json") ? undefined : prettyLogFormatter(terminal);
    return serve({ file, env: terminal.env, format }, terminal);
  },
};
