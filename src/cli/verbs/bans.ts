import { reasonError } from "../../core/keys/edit-rules.ts";
import { addressBanError } from "../../core/keys/find-records.ts";
import { EXIT_FAILURE, EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { withAccounts } from "../access/with-accounts.ts";
import { formatInstant, formatTable } from "../framework/table.ts";
import { printJson } from "../framework/terminal.ts";
import { GATEWAY_OPTIONS, parsePeriodOption, type Verb } from "../framework/verb.ts";
import { bansWhy } from "./bans-why.ts";

const list: Verb = {
  name: "bans list",
  usage: "[--admin URL] [--config FILE] [--json]",
  summary: "list the bans in force",
  options: GATEWAY_OPTIONS,
  example: "bans list --json",
  args: [],
  run: (invocation, terminal) =>
    withAccounts(invocation, terminal, {
      ask: (accounts) => accounts.bans(),
      say: (bans, missing) => {
        if (invocation.flag("json")) return printJson(terminal, bans);
        const rows = bans.map(({ account, environment, until, offences, lost }) => {
          const note = lost ? "the store does not have it" : "";
          return [account, environment, formatInstant(until), offences, note];
        });
        const names = ["ACCOUNT", "ENVIRONMENT", "UNTIL", "OFFENCES", ""];
        if (rows.length > 0) terminal.out(formatTable(terminal, names, rows));
        else terminal.out(missing > 0 ? "No ban is found\n" : "No account is banned\n");
        return EXIT_OK;
      },
    }),
};

const add: Verb = {
  name: "bans add",
  usage: "ID --for 1h [--reason TEXT] [--admin URL] [--config FILE] [--json]",
  summary:
    "ban an account for a time, which is no offence, in place of a ban in force; ID is an account or a key",
  options: [
    { name: "for", value: "1h", required: true, summary: "how long, from now on" },
    { name: "reason", value: "TEXT", summary: "kept with the ban, for people" },
    ...GATEWAY_OPTIONS,
  ],
  example: "bans add a_8LwVnVUvnqzT --for 1h --reason 'scrapes the catalogue'",
  args: ["ID"],
  async run(invocation, terminal) {
    const lengthMs = parsePeriodOption(invocation, "for");
    if (typeof lengthMs !== "number") {
      return fail(terminal, EXIT_USAGE, lengthMs ?? "Missing --for 1h");
    }
    const reason = invocation.text("reason");
    const wrong = reasonError(reason);
    if (wrong !== undefined) return fail(terminal, EXIT_USAGE, wrong);
    const [id = ""] = invocation.args;
    const notBanned = addressBanError(id);
    if (notBanned !== undefined) return fail(terminal, EXIT_FAILURE, notBanned);
    return withAccounts(invocation, terminal, {
      changes: true,
      ask: (accounts) => accounts.ban(id, { lengthMs, reason }),
      say: (ban) => {
        if (invocation.flag("json")) return printJson(terminal, ban);
        const { account, environment, until } = ban;
        terminal.out(`${account} in ${environment} is banned until ${formatInstant(until)}\n`);
        return EXIT_OK;
      },
    });
  },
};

const lift: Verb = {
  name: "bans lift",
  usage: "ID [--admin URL] [--config FILE] [--json]",
  summary: "end a ban and forget its offences; ID is an account or one of its keys",
  options: GATEWAY_OPTIONS,
  example: "bans lift a_8LwVnVUvnqzT",
  args: ["ID"],
  async run(invocation, terminal) {
    const [id = ""] = invocation.args;
    const notBanned = addressBanError(id);
    if (notBanned !== undefined) return fail(terminal, EXIT_FAILURE, notBanned);
    return withAccounts(invocation, terminal, {
      changes: true,
      ask: (accounts) => accounts.liftBan(id),
      say: ({ account, environment }) => {
        if (invocation.flag("json"))
          return printJson(terminal, { account, environment, lifted: true });
        terminal.out(`The ban of ${account} in ${environment} is lifted\n`);
        return EXIT_OK;
      },
    });
  },
};

export const bans: readonly Verb[] = [list, add, lift, bansWhy];
