import { type Explanation, explainRefusal, type KnownBan } from "../../core/quota/explain.ts";
import { EXIT_FAILURE, EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import type { BanHistory } from "../../telemetry/history/ban-history.ts";
import type { LoggedRequest } from "../../telemetry/log/logged-line.ts";
import { type OperationResult, refused } from "../access/account-operations.ts";
import { fetchAdmin } from "../access/admin-client.ts";
import { reachGateway } from "../access/reach.ts";
import { configFileOf, holdsKey, KEY_IN_ARGUMENT } from "../framework/config-file.ts";
import { formatInstant, formatTable, styleOf } from "../framework/table.ts";
import { printJson, showWait, type Terminal, WAITING_FOR_GATEWAY } from "../framework/terminal.ts";
import {
  CONFIG,
  FURTHER_ADMIN,
  type Invocation,
  JSON_FLAG,
  LOG,
  logFilesOf,
  parseAdminOptions,
  type Verb,
} from "../framework/verb.ts";
import { loggedBans } from "../logs/logged-bans.ts";
import { readLogsShown } from "../logs/read-shown.ts";

export const explain: Verb = {
  name: "explain",
  usage: "REQUEST-ID [--admin URL]… [--log FILE…] [--config FILE] [--json]",
  summary: "say why a request was refused, and when it would have passed",
  options: [
    { ...FURTHER_ADMIN, summary: "ask the gateway at this admin listener too" },
    LOG,
    CONFIG,
    JSON_FLAG,
  ],
  args: ["REQUEST-ID"],
  more: true,
  example: "explain 0b8f4a52-5f0f-4d8c-9a53-c4c9f3a1b0de --log tollgate.log",
  async run(invocation, terminal) {
    const files = logFilesOf(invocation, 1);
    const [pasted = ""] = invocation.args;
    const id = pasted.trim();
    const admins = parseAdminOptions(invocation);
    if (typeof admins === "string") return fail(terminal, EXIT_USAGE, admins);
    if (files.length > 0 && (await holdsForeignKey(invocation, terminal))) {
      return fail(terminal, EXIT_USAGE, KEY_IN_ARGUMENT);
    }
    const found =
      files.length > 0
        ? await fromLogs(files, id, terminal)
        : await fromGateways(invocation, id, terminal);
    if (typeof found === "number") return found;
    if (!found.ok) return fail(terminal, EXIT_FAILURE, found.message);
    if (invocation.flag("json")) return printJson(terminal, found.value);
    terminal.out(explanationText(found.value, terminal));
    return EXIT_OK;
  },
};

/** Whether an argument holds a key of another system, by a file that the verb does not need. */
async function holdsForeignKey(invocation: Invocation, terminal: Terminal): Promise<boolean> {
  const { loadReachable } = await import("../../config/load/reachable.ts");
  const found = await loadReachable(configFileOf(invocation), terminal.env);
  return found.ok && holdsKey(invocation, found.reach.config);
}

async function fromLogs(
  files: readonly string[],
  id: string,
  terminal: Terminal,
): Promise<OperationResult<Explanation>> {
  let found: LoggedRequest | undefined;
  const bans = loggedBans();
  const damage = await readLogsShown(files, terminal, {
    request: (line) => {
      if (line.id === id) found = line;
    },
    event: (line) => bans.event(line),
  });
  for (const one of damage) terminal.err(`Missing: ${one}\n`);
  if (found !== undefined) return { ok: true, value: explainRefusal(found, banOf(found, bans)) };
  // The ID may be a key, which no message repeats.
  return refused(`No line of ${files.join(", ")} is of that request`);
}

/** The ban that refused a request, from its event; undefined if the logs do not have it. */
function banOf(line: LoggedRequest, bans: BanHistory): KnownBan | undefined {
  const { account, env: environment, ban: until } = line;
  if (account === undefined || environment === undefined) return undefined;
  const ban = bans.of({ account, environment }).find((one) => one.until === until);
  return ban && { imposed: ban.imposed === true, reason: ban.reason };
}

/** Asks the gateways in turn, because each remembers only its own refusals. */
async function fromGateways(
  invocation: Invocation,
  id: string,
  terminal: Terminal,
): Promise<OperationResult<Explanation> | number> {
  const reached = await reachGateway(invocation, terminal, { asksSeveral: true });
  if (typeof reached === "number") return reached;
  const { config, admins } = reached;
  const path = `/api/explain/${encodeURIComponent(id)}`;
  const messages: string[] = [];
  for (const origin of [undefined, ...admins]) {
    const question = { path, members: ["id", "windows"], origin };
    const answer = await showWait(
      terminal,
      WAITING_FOR_GATEWAY,
      fetchAdmin<Explanation>(config, question),
    );
    if (answer.ok) return answer;
    // The message of a gateway does not name the gateway.
    const named = origin === undefined || answer.message.includes(origin);
    messages.push(named ? answer.message : `${origin}: ${answer.message}`);
  }
  return refused([...new Set(messages)].join("\n"));
}

function explanationText(explanation: Explanation, terminal: Terminal): string {
  const { bold } = styleOf(terminal);
  const { id, request, status, code, rule, windows, passesAt, strikes, ban, account } = explanation;
  const { decidedAt, decidedBy } = explanation;
  const rows = windows.map(({ window, used, limit, from, reset, exhausted }) => {
    return [
      window,
      used,
      limit,
      formatInstant(from),
      formatInstant(reset),
      exhausted ? "used up" : "",
    ];
  });
  const names = ["WINDOW", "USED", "LIMIT", "FROM", "RESET", ""];
  const owner = account === null ? "" : ` of account ${account}, plan ${explanation.plan}`;
  const by = decidedBy === null ? "" : ` (${decidedBy})`;
  const when = decidedAt === null ? "" : `, decided ${formatInstant(decidedAt)}${by}`;
  const isHeld = code === "meter_held";
  const settled = isHeld ? ", or as soon as requests under way have given enough back" : "";
  const isShare = decidedBy === "share";
  const back = isShare ? ", or as soon as the store is back and other gateways owe nothing" : "";
  return [
    `${bold(`${status} ${code ?? ""}`.trim())}  ${request}${owner}${when}\n`,
    `${rule}\n`,
    windows.length === 0 ? "" : formatTable(terminal, names, rows),
    strikes === null
      ? ""
      : `Strikes: ${strikes}${ban === null ? "" : `; banned until ${formatInstant(ban.until)}`}\n`,
    passesAt === null
      ? ""
      : `It would pass from ${formatInstant(passesAt)} on${settled}${back}, by what was counted then\n`,
    explanation.config === null ? "" : `Configuration ${explanation.config}, request ${id}\n`,
  ].join("");
}
