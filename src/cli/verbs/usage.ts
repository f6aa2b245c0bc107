import type { UsageReport } from "../../core/keys/report.ts";
import { DONE } from "../../server/process/process-door.ts";
import { instant, table } from "../frame/table.ts";
import { printJson, type Terminal } from "../frame/terminal.ts";
import { CONFIG, JSON_FLAG, type Verb } from "../frame/verb.ts";
import { withAccounts } from "../stores/with-accounts.ts";

export const usage: Verb = {
  name: "usage",
  usage: "ID [--config FILE] [--json]",
  summary: "show what an account has used; ID is the account or one of its keys",
  options: [CONFIG, JSON_FLAG],
  example: "usage a_8LwVnVUvnqzT --json",
  args: ["ID"],
  run: (call, terminal) =>
    withAccounts(call, terminal, {
      ask: (accounts) => accounts.usage(call.args[0] ?? ""),
      say: (report) => {
        if (call.flag("json")) return printJson(terminal, report);
        terminal.out(usageText(report, terminal));
        return DONE;
      },
    }),
};

function usageText(report: UsageReport, terminal: Terminal): string {
  const { account, environment, plan, windows, strikes, ban } = report;
  const rows = windows.map(({ window, limit, used, remaining, reset }) => {
    return [window, used, limit, remaining, instant(reset)];
  });
  const names = ["WINDOW", "USED", "LIMIT", "REMAINING", "RESET"];
  const banned = ban === null ? "not banned" : `banned until ${instant(ban.until)}`;
  const offences = ban === null ? "" : `, offences: ${ban.offences}`;
  const head = `Account ${account}: ${environment}, plan ${plan}`;
  return `${head}\n${table(terminal, names, rows)}Strikes: ${strikes}; ${banned}${offences}\n`;
}
