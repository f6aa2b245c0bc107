import { configFileOf } from "../framework/config-file.ts";
import { prettyLogFormatter } from "../framework/pretty-log.ts";
import { CONFIG, type Verb } from "../framework/verb.ts";

/** Prints only JSON lines on stdout; if stdout is a terminal, lines for people. */
export const start: Verb = {
  name: "start",
  usage: "[--config FILE]",
  summary: "run the gateway",
  options: [CONFIG],
  example: "start --config config/tollgate.yaml",
  args: [],
  async run(invocation, terminal) {
    const { serve } = await import("../../server/serve.ts");
    return serve(
      { file: configFileOf(invocation), env: terminal.env, format: prettyLogFormatter(terminal) },
      terminal,
    );
  },
};
