import { formatCount } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import {
  type Deprecation,
  deprecationReport as report,
} from "../../config/queries/deprecations.ts";
import { DAY_MS } from "../../core/quota/days.ts";
import { EXIT_FAILURE, EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import type { OperationResult } from "../access/account-operations.ts";
import { fetchAllPages } from "../access/admin-client.ts";
import { reachGateway } from "../access/reach.ts";
import { readDeprecatedCalls } from "../access/store-client.ts";
import { formatInstant, formatTable } from "../framework/table.ts";
import { printJson, type Terminal } from "../framework/terminal.ts";
import { CONFIG, JSON_FLAG, parseAdminOptions, type Verb } from "../framework/verb.ts";

/** Lists deprecated operations with a sunset, and their callers. */
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
  async run(invocation, terminal) {
    const reached = await reachGateway(invocation, terminal, { asksSeveral: true });
    if (typeof reached === "number") return reached;
    const { config } = reached;
    const admins = parseAdminOptions(invocation);
    if (typeof admins === "string") return fail(terminal, EXIT_USAGE, admins);
    const gateways = await askGateways(config, admins);
    const shared = config.store.kind !== "memory";
    if (!gateways.ok && gateways.named) return fail(terminal, EXIT_FAILURE, gateways.message);
    const stored = shared ? await readDeprecatedCalls(config) : gateways;
    if (!stored.ok) return fail(terminal, EXIT_FAILURE, stored.message);
    const found = report(config, stored.value, terminal.now());
    if (invocation.flag("json")) return printJson(terminal, found);
    terminal.out(deprecationsText(found, terminal));
    return EXIT_OK;
  },
};

type Calls = Parameters<typeof report>[1];

/**
 * The calls that the gateways know, added up. A query makes each gateway flush to the store.
 * `named` is set if a gateway that did not reply was named by --admin.
 */
async function askGateways(
  config: Config,
  others: readonly string[],
): Promise<OperationResult<Calls> & { readonly named?: boolean }> {
  const calls: Calls[number][] = [];
  for (const origin of [undefined, ...others]) {
    const question = { path: "/api/deprecations", ...(origin === undefined ? {} : { origin }) };
    const only = "the running gateway knows who calls";
    const answer = await fetchAllPages<Deprecation>(config, { ...question, only });
    if (!answer.ok) return { ...answer, named: origin !== undefined };
    for (const { environment, method, route, accounts } of answer.value) {
      calls.push(...accounts.map((one) => ({ environment, method, route, ...one })));
    }
  }
  return { ok: true, value: calls };
}

/** "266 days left, until …", or "gone for 266 days, since …". */
function sunsetText(sunset: number, daysLeft: number, nowMs: number): string {
  if (daysLeft > 0) return `${formatCount(daysLeft, "day")} left, until ${formatInstant(sunset)}`;
  const daysGone = Math.floor((nowMs - sunset * 1_000) / DAY_MS);
  return `gone for ${formatCount(daysGone, "day")}, since ${formatInstant(sunset)}`;
}

function deprecationsText(found: readonly Deprecation[], terminal: Terminal): string {
  if (found.length === 0) return "No operation is deprecated\n";
  return found
    .map(({ environment, method, route, sunset, daysLeft, accounts }) => {
      const left =
        sunset === null ? "no sunset" : sunsetText(sunset, daysLeft ?? 0, terminal.now());
      const head = `${environment}: ${method} ${route}, ${left}\n`;
      // Gateways tell their calls to the store now and then (docs/reference/history.md#notes).
      if (accounts.length === 0) return `${head}  No account has called it up to a minute ago\n`;
      const rows = accounts.map(({ account, requests, last }) => {
        return [account, requests, formatInstant(last)];
      });
      return `${head}${formatTable(terminal, ["ACCOUNT", "REQUESTS", "LAST"], rows)}`;
    })
    .join("\n");
}
