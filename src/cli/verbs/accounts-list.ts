import { findAccount, unknown } from "../../core/keys/find.ts";
import type { AccountRecord } from "../../core/keys/records.ts";
import { type AccountReport, accountReports } from "../../core/keys/report.ts";
import { DONE, fail, WRONG_USAGE } from "../../server/process/process-door.ts";
import { instant, table } from "../frame/table.ts";
import { printJson, type Terminal } from "../frame/terminal.ts";
import { CONFIG, JSON_FLAG, type Verb } from "../frame/verb.ts";
import { unknownEnvironment, unknownPlan } from "../stores/read-terms.ts";
import { failRefused, listStatus, withKeys } from "../stores/with-keys.ts";

const list: Verb = {
  name: "accounts list",
  usage: "[--env ENV] [--plan PLAN] [--config FILE] [--json]",
  summary: "list accounts, oldest first",
  example: "accounts list --env production --plan pro",
  options: [
    { name: "env", value: "ENV", summary: "those of this environment" },
    { name: "plan", value: "PLAN", summary: "those on this plan" },
    CONFIG,
    JSON_FLAG,
  ],
  args: [],
  run: (call, terminal) =>
    withKeys(call, terminal, async (keys, config) => {
      const [environment, plan] = [call.text("env"), call.text("plan")];
      const strange = unknownEnvironment(environment, config);
      if (strange !== undefined) return fail(terminal, WRONG_USAGE, strange);
      const records = keys.records();
      const unheard = unknownPlan(plan, config, records);
      if (unheard !== undefined) return fail(terminal, WRONG_USAGE, unheard);
      const chosen = records.accounts.filter(
        (account) =>
          (environment ?? account.environment) === account.environment &&
          (plan ?? account.plan) === account.plan,
      );
      const reports = accountReports(chosen, records, terminal.now());
      if (call.flag("json")) printJson(terminal, reports);
      else if (reports.length > 0) terminal.out(accountTable(reports, terminal));
      else if (records.accounts.length > 0) terminal.out("No account is like that\n");
      else terminal.out("There are no accounts: `keys create` makes one with its first key\n");
      return listStatus(keys);
    }),
};

const show: Verb = {
  name: "accounts show",
  usage: "ID [--config FILE] [--json]",
  summary: "show an account; ID is the account or one of its keys",
  example: "accounts show acme",
  options: [CONFIG, JSON_FLAG],
  args: ["ID"],
  run: (call, terminal) =>
    withKeys(call, terminal, async (keys) => {
      const [id = ""] = call.args;
      const records = keys.records();
      const account = findAccount(records, id);
      if (account === undefined) return failRefused(terminal, unknown(id));
      return showAccount(account, { records, call, terminal });
    }),
};

type Showing = {
  readonly records: Parameters<typeof accountReports>[1];
  readonly call: Parameters<Verb["run"]>[0];
  readonly terminal: Terminal;
};

/** An account as it is, in words or as JSON. */
export function showAccount(account: AccountRecord, { records, call, terminal }: Showing): number {
  const [report] = accountReports([account], records, terminal.now()) as [AccountReport];
  if (call.flag("json")) return printJson(terminal, report);
  terminal.out(accountText(report));
  return DONE;
}

function accountTable(reports: readonly AccountReport[], terminal: Terminal): string {
  const names = ["ACCOUNT", "ENVIRONMENT", "PLAN", "LIMITS", "KEYS", "STATE"];
  const rows = reports.map((report) => {
    const { account, environment, plan, keys } = report;
    return [account, environment, plan, pairs(report.limits), keys.length, stateText(report)];
  });
  return table(terminal, names, rows);
}

function accountText(report: AccountReport): string {
  const rows = [
    ["environment", report.environment],
    ["plan", report.plan],
    ["limits", pairs(report.limits) || "those of the plan"],
    ["metadata", pairs(report.meta) || "none"],
    ["keys", report.keys.join(" ") || "none works"],
    ["created", instant(report.created)],
    ["state", stateText(report)],
  ];
  const lines = rows.map(([name = "", value]) => `  ${name.padEnd(12)} ${value}\n`);
  return `${report.account}\n${lines.join("")}`;
}

function pairs(members: Readonly<Record<string, string | number>>): string {
  return Object.entries(members)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
}

function stateText({ suspended }: AccountReport): string {
  if (suspended === null) return "active";
  const until = suspended.until === null ? "" : ` until ${instant(suspended.until)}`;
  return `suspended${until}${suspended.reason === "" ? "" : `: ${suspended.reason}`}`;
}

export const accountsList: readonly Verb[] = [list, show];
