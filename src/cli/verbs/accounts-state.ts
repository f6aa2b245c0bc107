import { resumeAccount, suspendAccount } from "../../core/keys/edit-accounts.ts";
import type { AccountRecord } from "../../core/keys/records.ts";
import type { ResetReport } from "../../core/keys/usage-reports.ts";
import { EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { withAccounts } from "../access/with-accounts.ts";
import { withEdit, withKeys } from "../access/with-keys.ts";
import { printJson } from "../framework/terminal.ts";
import { GATEWAY_OPTIONS, parsePeriodOption, type Verb } from "../framework/verb.ts";
import { printAccount } from "./accounts-list.ts";

const suspend: Verb = {
  name: "accounts suspend",
  usage: "ID [--for 24h] [--reason TEXT] [--admin URL] [--config FILE] [--json]",
  summary: "refuse all requests of an account with 403, uncharged, and end its tunnels",
  example: "accounts suspend acme --reason 'unpaid since May'",
  options: [
    { name: "for", value: "24h", summary: "end by itself after this long (until it is resumed)" },
    { name: "reason", value: "TEXT", summary: "kept with the account, for people" },
    ...GATEWAY_OPTIONS,
  ],
  args: ["ID"],
  async run(invocation, terminal) {
    const forMs = parsePeriodOption(invocation, "for");
    if (typeof forMs === "string") return fail(terminal, EXIT_USAGE, forMs);
    const how = { forMs, reason: invocation.text("reason") };
    return withKeys(invocation, terminal, (keys) =>
      withEdit(keys, terminal, {
        edit: (records) => suspendAccount(records, invocation.args[0] ?? "", how, terminal.now()),
        say: ({ records, accounts: [account] }) =>
          printAccount(account as AccountRecord, { records, invocation, terminal }),
      }),
    );
  },
};

const resume: Verb = {
  name: "accounts resume",
  usage: "ID [--admin URL] [--config FILE] [--json]",
  summary: "end the suspension of an account",
  example: "accounts resume acme",
  options: GATEWAY_OPTIONS,
  args: ["ID"],
  run: (invocation, terminal) =>
    withKeys(invocation, terminal, (keys) =>
      withEdit(keys, terminal, {
        edit: (records) => resumeAccount(records, invocation.args[0] ?? ""),
        say: ({ records, accounts: [account] }) =>
          printAccount(account as AccountRecord, { records, invocation, terminal }),
      }),
    ),
};

const reset: Verb = {
  name: "accounts reset",
  usage: "ID [--window W]… [--env ENV] [--admin URL] [--config FILE] [--json]",
  summary: "set the running windows of an account to 0; bans and strikes stay",
  example: "accounts reset acme --window day",
  options: [
    {
      name: "window",
      value: "W",
      repeats: true,
      summary: "set only this window to 0, such as day (all that run)",
    },
    {
      name: "env",
      value: "ENV",
      summary: "the environment, where an address has counts in several",
    },
    ...GATEWAY_OPTIONS,
  ],
  args: ["ID"],
  run: (invocation, terminal) => {
    const windows = invocation.texts("window");
    return withAccounts(invocation, terminal, {
      changes: true,
      ask: (accounts) => {
        const named = { id: invocation.args[0] ?? "", environment: invocation.text("env") };
        return accounts.reset(named, windows.length === 0 ? undefined : windows);
      },
      say: (report) => {
        if (invocation.flag("json")) return printJson(terminal, report);
        terminal.out(resetText(report));
        return EXIT_OK;
      },
    });
  },
};

function resetText({ account, environment, windows }: ResetReport): string {
  const had = windows.map(({ window, units }) => `${window} had ${units}`).join(", ");
  const told = had === "" ? "no window runs" : had;
  return `The windows of ${account} in ${environment} are at 0: ${told}\n`;
}

export const accountsState: readonly Verb[] = [suspend, resume, reset];
