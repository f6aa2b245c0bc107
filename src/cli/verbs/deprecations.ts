import type { Config } from "../../config/config.ts";
import { type Deprecation, deprecations as report } from "../../config/deprecations.ts";
import { DONE, FAILED, fail, WRONG_USAGE } from "../../server/process/process-door.ts";
import { readConfig } from "../frame/config-file.ts";
import { instant, table } from "../frame/table.ts";
import { printJson, type Terminal } from "../frame/terminal.ts";
import { CONFIG, JSON_FLAG, readAdmins, type Verb } from "../frame/verb.ts";
import type { AccountAnswer } from "../stores/accounts.ts";
import { askPages } from "../stores/ask-admin.ts";
import { readCalls } from "../stores/read-calls.ts";

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
    const admins = readAdmins(call);
    if (typeof admins === "string") return fail(terminal, WRONG_USAGE, admins);
    const gateways = await askGateways(config, admins);
    const shared = config.store.kind !== "memory";
    if (!gateways.ok && (!shared || gateways.named)) {
      return fail(terminal, FAILED, gateways.message);
    }
    const stored = shared ? await readCalls(config) : gateways;
    if (!stored.ok) return fail(terminal, FAILED, stored.message);
    const found = report(config, stored.value, terminal.now());
    if (call.flag("json")) return printJson(terminal, found);
    terminal.out(deprecationsText(found, terminal));
    return DONE;
  },
};

type Calls = Parameters<typeof report>[1];

/**
 * The calls that the gateways know, added up; asking makes each tell the store. `named`: one that did
 * not answer was named by --admin.
 */
async function askGateways(
  config: Config,
  others: readonly string[],
): Promise<AccountAnswer<Calls> & { readonly named?: boolean }> {
  const calls: Calls[number][] = [];
  for (const origin of [undefined, ...others]) {
    const question = { path: "/api/deprecations", ...(origin === undefined ? {} : { origin }) };
    const only = "the running gateway knows who calls";
    const answer = await askPages<Deprecation>(config, { ...question, only });
    if (!answer.ok) return { ...answer, named: origin !== undefined };
    for (const { environment, method, route, accounts } of answer.value) {
      calls.push(...accounts.map((one) => ({ environment, method, route, ...one })));
    }
  }
  return { ok: true, value: calls };
}

function deprecationsText(found: readonly Deprecation[], terminal: Terminal): string {
  if (found.length === 0) return "No operation is deprecated\n";
  return found
    .map(({ environment, method, route, sunset, daysLeft, accounts }) => {
      const left =
        sunset === null ? "no sunset" : `${daysLeft} days left, until ${instant(sunset)}`;
      const head = `${environment}: ${method} ${route}, ${left}\n`;
      if (accounts.length === 0) return `${head}  Nobody has called it\n`;
      const rows = accounts.map(({ account, requests, last }) => {
        return [account, requests, instant(last)];
      });
      return `${head}${table(terminal, ["ACCOUNT", "REQUESTS", "LAST"], rows)}`;
    })
    .join("\n");
}
