import { type Deprecation, deprecations as report } from "../../config/deprecations.ts";
import { DONE, FAILED, fail } from "../../server/process/process-door.ts";
import { readConfig } from "../frame/config-file.ts";
import { instant, table } from "../frame/table.ts";
import { printJson, type Terminal } from "../frame/terminal.ts";
import { CONFIG, JSON_FLAG, type Verb } from "../frame/verb.ts";
import { askPages } from "../stores/ask-admin.ts";

/** Lists the operations that go away, and who still calls them. */
export const deprecations: Verb = {
  name: "deprecations",
  usage: "[--admin URL]… [--config FILE] [--json]",
  summary: "list deprecated operations, the days left, and the accounts that call them",
  options: [
    { name: "admin", value: "URL", repeats: true, summary: "ask this gateway too" },
    CONFIG,
    JSON_FLAG,
  ],
  args: [],
  example: "deprecations --json",
  async run(call, terminal) {
    const config = await readConfig(call, terminal);
    if (typeof config === "number") return config;
    const calls: Parameters<typeof report>[1][number][] = [];
    for (const origin of [undefined, ...call.texts("admin")]) {
      const question = { path: "/api/deprecations", ...(origin === undefined ? {} : { origin }) };
      const only = "the running gateway knows who calls";
      const answer = await askPages<Deprecation>(config, { ...question, only });
      if (!answer.ok) return fail(terminal, FAILED, answer.message);
      for (const { environment, method, route, accounts } of answer.value) {
        calls.push(...accounts.map((one) => ({ environment, method, route, ...one })));
      }
    }
    const found = report(config, calls, terminal.now());
    if (call.flag("json")) return printJson(terminal, found);
    terminal.out(deprecationsText(found, terminal));
    return DONE;
  },
};

function deprecationsText(found: readonly Deprecation[], terminal: Terminal): string {
  if (found.length === 0) return "No operation is deprecated\n";
  return found
    .map(({ environment, method, route, sunset, daysLeft, accounts }) => {
      const left =
        sunset === null ? "no sunset" : `${daysLeft} days left, until ${instant(sunset)}`;
      const head = `${environment}: ${method} ${route}, ${left}\n`;
      if (accounts.length === 0) return `${head}  Nobody has called it since the gateway started\n`;
      const rows = accounts.map(({ account, requests, last }) => {
        return [account, requests, instant(last)];
      });
      return `${head}${table(terminal, ["ACCOUNT", "REQUESTS", "LAST"], rows)}`;
    })
    .join("\n");
}
