import { quoteValue } from "../../base/messages.ts";
import { meterNames } from "../../config/queries/meter-names.ts";
import type { UsageReport, WindowReport } from "../../core/keys/usage-reports.ts";
import { EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import type { UsageFilter } from "../../stores/queries/read-usage.ts";
import { reachGateway } from "../access/reach.ts";
import { nameOptionsError } from "../access/unknown-names.ts";
import { withAccounts } from "../access/with-accounts.ts";
import { formatCsv, formatInstant, formatTable } from "../framework/table.ts";
import { printJson, type Terminal } from "../framework/terminal.ts";
import { GATEWAY_OPTIONS, type Invocation, type Option, type Verb } from "../framework/verb.ts";
import { isByDay, PERIODS, usageByDay, wholeAccountText } from "./usage-by-day.ts";

const FILTERS: readonly Option[] = [
  { name: "env", value: "ENV", summary: "accounts, or the address ID, of this environment" },
  { name: "plan", value: "PLAN", summary: "accounts on this plan" },
  { name: "over", value: "80%", summary: "accounts that have used this much of a limit" },
  { name: "top", value: "20", summary: "only this many: the accounts nearest to a limit" },
];

export const usage: Verb = {
  name: "usage",
  usage:
    "[ID] [--env ENV] [--plan PLAN] [--over 80%] [--top 20] [--days 30] [--month 2026-10] [--csv] [--admin URL] [--config FILE] [--json]",
  summary: "show what an account, or each of all accounts, has used; ID is the account or a key",
  options: [
    ...FILTERS,
    ...PERIODS,
    { name: "csv", summary: "print comma-separated values, a line for each window or day" },
    ...GATEWAY_OPTIONS,
  ],
  args: [],
  optional: ["ID"],
  example: "usage --month 2026-10 --csv",
  async run(invocation, terminal) {
    const [id] = invocation.args;
    const reached = await reachGateway(invocation, terminal);
    if (typeof reached === "number") return reached;
    // By day, names that have left the file may have usage.
    const unknown = nameOptionsError(invocation, reached, { accounts: [] });
    if (isByDay(invocation)) {
      // Without a gateway, a file with mistakes has the meters of its sound part.
      const { config, meters = meterNames(config) } = reached;
      return usageByDay(invocation, terminal, { meters, unknown });
    }
    if (unknown !== undefined) return fail(terminal, unknown.status, unknown.message);
    const filter = readFilter(invocation);
    if (typeof filter === "string") return fail(terminal, EXIT_USAGE, filter);
    if (id !== undefined) return usageOfOne(id, invocation, terminal);
    return withAccounts(invocation, terminal, {
      ask: (accounts) => accounts.usageOfAll(filter),
      say: (reports, missing) => sayAll(reports, missing, invocation, terminal),
    });
  },
};

async function usageOfOne(id: string, invocation: Invocation, terminal: Terminal): Promise<number> {
  const narrowing = FILTERS.find(
    ({ name }) => name !== "env" && invocation.text(name) !== undefined,
  );
  if (narrowing !== undefined) {
    const message = `--${narrowing.name} chooses among all accounts: leave it out, or the ID`;
    return fail(terminal, EXIT_USAGE, message);
  }
  return withAccounts(invocation, terminal, {
    ask: (accounts) => accounts.usage({ id, environment: invocation.text("env") }),
    say: (report) => {
      if (invocation.flag("json")) return printJson(terminal, report);
      if (invocation.flag("csv")) terminal.out(usageCsv([report]));
      else terminal.out(`${usageText(report, terminal)}${wholeAccountText(id, report)}`);
      return EXIT_OK;
    },
  });
}

/** The filter, or the mistake in the options. */
function readFilter(invocation: Invocation): UsageFilter | string {
  const [environment, plan] = [invocation.text("env"), invocation.text("plan")];
  const over = invocation.text("over");
  if (over !== undefined && !/^\d{1,3}(?:\.\d{1,3})?%?$/.test(over)) {
    return `Cannot read --over as a percentage below 1000%, such as 80%: the value is ${quoteValue(over)}`;
  }
  const top = invocation.text("top");
  if (top !== undefined && !/^[1-9]\d{0,6}$/.test(top)) {
    return `Cannot read --top as a number of accounts from 1 to 9999999: the value is ${quoteValue(top)}`;
  }
  return {
    ...{ environment, plan },
    over: over === undefined ? undefined : Number.parseFloat(over),
    top: top === undefined ? undefined : Number(top),
  };
}

function sayAll(
  reports: readonly UsageReport[],
  missing: number,
  invocation: Invocation,
  terminal: Terminal,
): number {
  if (invocation.flag("json")) return printJson(terminal, reports);
  if (invocation.flag("csv")) {
    terminal.out(usageCsv(reports));
    return EXIT_OK;
  }
  const rows = reports.flatMap(({ account, environment, plan, windows, ban }) =>
    windows.map(({ window, used, limit, reset }) => [
      ...[account, environment, plan, window, used, limit],
      `${Math.floor((100 * used) / limit)} %`,
      formatInstant(reset),
      ban === null ? "" : bannedText(ban),
    ]),
  );
  const names = ["ACCOUNT", "ENVIRONMENT", "PLAN", "WINDOW", "USED", "LIMIT", "SHARE", "RESET", ""];
  if (rows.length > 0) terminal.out(formatTable(terminal, names, rows));
  else terminal.out(missing > 0 ? "No usage is found\n" : "No account matches\n");
  return EXIT_OK;
}

/** The columns of what is included and of overage are there if any plan includes units. */
function usageCsv(reports: readonly UsageReport[]): string {
  const isBilled = reports.some(({ windows }) => windows.some((one) => one.included !== undefined));
  const rows = reports.flatMap(({ account, environment, plan, windows }) =>
    windows.map(({ window, used, limit, remaining, reset, included = "", overage = "" }) => {
      const billed = isBilled ? [included, overage] : [];
      return [account, environment, plan, window, used, limit, remaining, reset, ...billed];
    }),
  );
  const names = ["account", "environment", "plan", "window", "used", "limit", "remaining", "reset"];
  return formatCsv([isBilled ? [...names, "included", "overage"] : names, ...rows]);
}

function overageText({ included, overage = 0 }: WindowReport): string {
  if (included === undefined) return "";
  return overage === 0 ? `included: ${included}` : `included: ${included}, overage: ${overage}`;
}

function bannedText({ until, lost }: NonNullable<UsageReport["ban"]>): string {
  const end = `banned until ${formatInstant(until)}`;
  return lost ? `${end} by what a gateway knows: the store does not have the ban` : end;
}

function usageText(report: UsageReport, terminal: Terminal): string {
  const { account, environment, plan, windows, observed = [], strikes, ban } = report;
  const rows = [...windows, ...observed].map((one) => {
    const note = observed.includes(one) ? "observed" : overageText(one);
    return [one.window, one.used, one.limit, one.remaining, formatInstant(one.reset), note];
  });
  const names = ["WINDOW", "USED", "LIMIT", "REMAINING", "RESET", ""];
  const banned = ban === null ? "not banned" : bannedText(ban);
  const offences = ban === null ? "" : `, offences: ${ban.offences}`;
  const head = `Account ${account}: ${environment}, plan ${plan}`;
  return `${head}\n${formatTable(terminal, names, rows)}Strikes: ${strikes}; ${banned}${offences}\n`;
}
