import { DONE, fail, WRONG_USAGE } from "../../server/process/process-door.ts";
import { instant, table } from "../frame/table.ts";
import { printJson } from "../frame/terminal.ts";
import { CONFIG, JSON_FLAG, readPeriod, type Verb } from "../frame/verb.ts";
import { withAccounts } from "../stores/with-accounts.ts";
import { bansWhy } from "./explain.ts";

const list: Verb = {
  name: "bans list",
  usage: "[--config FILE] [--json]",
  summary: "list the bans in force",
  options: [CONFIG, JSON_FLAG],
  example: "bans list --json",
  args: [],
  run: (call, terminal) =>
    withAccounts(call, terminal, {
      ask: (accounts) => accounts.bans(),
      say: (bans) => {
        if (call.flag("json")) return printJson(terminal, bans);
        const rows = bans.map(({ account, environment, until, offences }) => {
          return [account, environment, instant(until), offences];
        });
        const names = ["ACCOUNT", "ENVIRONMENT", "UNTIL", "OFFENCES"];
        terminal.out(rows.length === 0 ? "Nobody is banned\n" : table(terminal, names, rows));
        return DONE;
      },
    }),
};

const add: Verb = {
  name: "bans add",
  usage: "ID --for 1h [--config FILE] [--json]",
  summary: "ban an account for a time, which is no offence of its; ID is an account or a key",
  options: [
    { name: "for", value: "1h", required: true, summary: "how long, from now on" },
    CONFIG,
    JSON_FLAG,
  ],
  example: "bans add a_8LwVnVUvnqzT --for 1h",
  args: ["ID"],
  run(call, terminal) {
    const lengthMs = readPeriod(call, "for");
    if (typeof lengthMs !== "number") {
      return Promise.resolve(fail(terminal, WRONG_USAGE, lengthMs ?? "Missing --for 1h"));
    }
    return withAccounts(call, terminal, {
      ask: (accounts) => accounts.ban(call.args[0] ?? "", lengthMs),
      say: (ban) => {
        if (call.flag("json")) return printJson(terminal, ban);
        const { account, environment, until } = ban;
        terminal.out(`${account} in ${environment} is banned until ${instant(until)}\n`);
        return DONE;
      },
    });
  },
};

const lift: Verb = {
  name: "bans lift",
  usage: "ID [--config FILE] [--json]",
  summary: "end a ban and forget its offences; ID is an account or one of its keys",
  options: [CONFIG, JSON_FLAG],
  example: "bans lift a_8LwVnVUvnqzT",
  args: ["ID"],
  run: (call, terminal) =>
    withAccounts(call, terminal, {
      ask: (accounts) => accounts.liftBan(call.args[0] ?? ""),
      say: ({ account, environment }) => {
        if (call.flag("json")) return printJson(terminal, { account, environment, lifted: true });
        terminal.out(`The ban of ${account} in ${environment} is lifted\n`);
        return DONE;
      },
    }),
};

export const bans: readonly Verb[] = [list, add, lift, bansWhy];
