import { findAccount, isChosen, unknownIdRefusal } from "../../core/keys/find-records.ts";
import { type AccountReport, accountReports } from "../../core/keys/record-reports.ts";
import type { AccountRecord, Records } from "../../core/keys/records.ts";
import { EXIT_FAILURE, EXIT_OK, fail } from "../../server/process/process-context.ts";
import { recordsTrouble } from "../access/gateway-differences.ts";
import { nameOptionsError } from "../access/unknown-names.ts";
import { failWithRefusal, listExitStatus, withKeys } from "../access/with-keys.ts";
import { formatFacts, formatInstant, formatPairs, formatTable } from "../framework/table.ts";
import { printJson, type Terminal } from "../framework/terminal.ts";
import { GATEWAY_OPTIONS, type Invocation, type Verb } from "../framework/verb.ts";

const list: Verb = {
  name: "accounts list",
  usage: "[--env ENV] [--plan PLAN] [--admin URL] [--config FILE] [--json]",
  summary: "list accounts, oldest first",
  example: "accounts list --env production --plan pro",
  options: [
    { name: "env", value: "ENV", summary: "those of this environment" },
    { name: "plan", value: "PLAN", summary: "those on this plan" },
    ...GATEWAY_OPTIONS,
  ],
  args: [],
  run: (invocation, terminal) =>
    withKeys(invocation, terminal, async (keys, reached) => {
      const records = keys.records();
      const strange = nameOptionsError(invocation, reached, records);
      if (strange !== undefined) return fail(terminal, strange.status, strange.message);
      const filter = { environment: invocation.text("env"), plan: invocation.text("plan") };
      const chosen = records.accounts.filter((account) => isChosen(account, filter));
      const reports = accountReports(chosen, records, terminal.now());
      const trouble =
        records.accounts.length > 0 ? undefined : await recordsTrouble(reached.config, terminal);
      if (invocation.flag("json")) printJson(terminal, reports);
      else if (reports.length > 0) terminal.out(accountTable(reports, terminal));
      else if (records.accounts.length > 0) terminal.out("No account matches\n");
      else if (trouble === undefined)
        terminal.out("There are no accounts: `keys create` makes one with its first key\n");
      if (trouble !== undefined)
        return fail(terminal, EXIT_FAILURE, `No accounts are found: ${trouble}`);
      return listExitStatus(keys);
    }),
};

const show: Verb = {
  name: "accounts show",
  usage: "ID [--admin URL] [--config FILE] [--json]",
  summary: "show an account; ID is the account or one of its keys",
  example: "accounts show acme",
  options: GATEWAY_OPTIONS,
  args: ["ID"],
  run: (invocation, terminal) =>
    withKeys(invocation, terminal, async (keys, reached) => {
      const [id = ""] = invocation.args;
      const records = keys.records();
      const account = findAccount(records, id);
      if (account === undefined) {
        const refusal = unknownIdRefusal(id);
        const trouble = await recordsTrouble(reached.config, terminal);
        if (trouble === undefined) return failWithRefusal(terminal, refusal);
        return fail(terminal, EXIT_FAILURE, `${refusal.message}. ${trouble}`);
      }
      return printAccount(account, { records, invocation, terminal });
    }),
};

type ListInputs = {
  readonly records: Pick<Records, "keys">;
  readonly invocation: Invocation;
  readonly terminal: Terminal;
};

/** Prints an account as it is, in words or as JSON. */
export function printAccount(
  account: AccountRecord,
  { records, invocation, terminal }: ListInputs,
): number {
  const [report] = accountReports([account], records, terminal.now()) as [AccountReport];
  if (invocation.flag("json")) return printJson(terminal, report);
  terminal.out(accountText(report));
  return EXIT_OK;
}

function accountTable(reports: readonly AccountReport[], terminal: Terminal): string {
  const names = ["ACCOUNT", "ENVIRONMENT", "PLAN", "LIMITS", "KEYS", "STATE"];
  const rows = reports.map((report) => {
    const { account, environment, plan, keys } = report;
    return [account, environment, plan, formatPairs(report.limits), keys.length, stateText(report)];
  });
  return formatTable(terminal, names, rows);
}

function accountText(report: AccountReport): string {
  return formatFacts(report.account, [
    ["environment", report.environment],
    ["plan", report.plan],
    ["limits", formatPairs(report.limits) || "those of the plan"],
    ...(report.anchor === 1 && report.anchorFrom === null ? [] : [["months", monthsText(report)]]),
    ["metadata", formatPairs(report.meta) || "none"],
    ["keys", report.keys.join(" ") || "none works"],
    ["created", formatInstant(report.created)],
    ["state", stateText(report)],
  ]);
}

function monthsText({ anchor, anchorFrom }: AccountReport): string {
  const from = anchorFrom === null ? "" : ` from ${formatInstant(anchorFrom)} on`;
  return `begin on day ${anchor}${from}`;
}

function stateText({ suspended }: AccountReport): string {
  if (suspended === null) return "active";
  const until = suspended.until === null ? "" : ` until ${formatInstant(suspended.until)}`;
  return `suspended${until}${suspended.reason === "" ? "" : `: ${suspended.reason}`}`;
}

export const accountsList: readonly Verb[] = [list, show];
