import { DONE } from "./frame/terminal.ts";
import { CONFIG, JSON_FLAG, type Verb } from "./frame/verb.ts";

/** Always one JSON value; --json and --config are taken and change nothing. */
export const schema: Verb = {
  name: "schema",
  usage: "",
  summary: "print the JSON Schema of the configuration",
  options: [CONFIG, JSON_FLAG],
  args: [],
  async run(_call, terminal) {
    const { schemaText } = await import("../config/schema/json-schema.ts");
    terminal.out(schemaText());
    return DONE;
  },
};
