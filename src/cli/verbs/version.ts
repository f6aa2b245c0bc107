import { EXIT_OK } from "../../server/process/process-context.ts";
import { printJson } from "../framework/terminal.ts";
import { CONFIG_IGNORED, JSON_FLAG, type Verb } from "../framework/verb.ts";

export const version: Verb = {
  name: "version",
  usage: "[--json]",
  summary: "the version",
  options: [CONFIG_IGNORED, JSON_FLAG],
  args: [],
  example: "version --json",
  async run(invocation, terminal, text) {
    if (invocation.flag("json")) return printJson(terminal, { version: text });
    terminal.out(`tollgate ${text}\n`);
    return EXIT_OK;
  },
};
