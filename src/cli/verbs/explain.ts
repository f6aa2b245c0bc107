import type { Config } from "../../config/config.ts";
import { type Explanation, explainRefusal as explainLine } from "../../core/quota/explain.ts";
import { EXIT_FAILURE, EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import type { BanRecord } from "../../telemetry/history/diagnostics.ts";
import type { OperationResult } from "../access/account-operations.ts";
import { fetchAdmin } from "../access/admin-client.ts";
import { reachGateway } from "../access/reach.ts";
import { formatInstant, formatTable, styleOf } from "../framework/table.ts";
import { printJson, type Terminal } from "../framework/terminal.ts";
import {
  CONFIG,
  type Invocation,
  JSON_FLAG,
  LOG,
  logFilesOf,
  parseAdminOptions,
  type Verb,
} from "../framework/verb.ts";

export const explain: Verb = {
  name: "explain",
  usage: "REQUEST-ID [--admin URL]… [--log FILE…] [--config FILE] [--json]",
  summary: "say why a request was refused, and when it would have passed",
  options: [
    {
      name: "admin",
      value: "URL",
      repeats: true,
      summary: "ask the gateway at this admin listener too",
    },
    LOG,
    CONFIG,
    JSON_FLAG,
  ],
  args: ["REQUEST-ID"],
  more: true,
  example: "explain 0b8f4a52-5f0f-4d8c-9a53-c4c9f3a1b0de --log tollgate.log",
  async run(call, terminal) {
    const files = logFilesOf(call, 1);
    const [id = "", extra] = call.args;
    const admins = parseAdminOptions(call);
    if (typeof admins === "string") return fail(terminal, EXIT_USAGE, admins);
    if (files.length === 0 && extra !== undefined) {
      return fail(terminal, EXIT_USAGE, `Unexpected argument ${JSON.stringify(extra)}`);
    }
    const found =
      files.length > 0
        ? await fromLogs(files, id)
        : await fromGateways(call, { id, admins }, terminal);
    if (typeof found === "number") return found;
    if (!found.ok) return fail(terminal, EXIT_FAILURE, found.message);
    if (call.flag("json")) return printJson(terminal, found.value);
    terminal.out(explanationText(found.value, terminal));
    return EXIT_OK;
  },
};

async function fromLogs(
  files: readonly string[],
  id: string,
): Promise<OperationResult<Explanation>> {
  const { readLogs } = await import("../../telemetry/log/read-log.ts");
  let found: Explanation | undefined;
  await readLogs(files, {
    request: (line) => {
      if (line.id === id) found = explainLine(line);
    },
  });
  if (found !== undefined) return { ok: true, value: found };
  return { ok: false, message: `No line of ${files.join(", ")} is of the request ${id}` };
}

/** Each gateway remembers its own refusals: they are asked in turn. */
async function fromGateways(
  call: Invocation,
  { id, admins }: { readonly id: string; readonly admins: readonly string[] },
  terminal: Terminal,
): Promise<OperationResult<Explanation> | number> {
  const reached = await reachGateway(call, terminal, { asksSeveral: true });
  if (typeof reached === "number") return reached;
  const { config } = reached;
  const path = `/api/explain/${encodeURIComponent(id)}`;
  const asked = [undefined, ...admins];
  const messages: string[] = [];
  for (const origin of asked) {
    const answer = await fetchAdmin<Explanation>(config, {
      ...{ path, members: ["id", "windows"] },
      ...(origin && { origin }),
    });
    if (answer.ok) return answer;
    // The message of a gateway does not say which it is.
    const named = origin === undefined || answer.message.includes(origin);
    messages.push(named ? answer.message : `${origin}: ${answer.message}`);
  }
  return { ok: false, message: [...new Set(messages)].join("\n") };
}

function explanationText(told: Explanation, terminal: Terminal): string {
  const { bold } = styleOf(terminal);
  const { id, request, status, code, rule, windows, passesAt, strikes, ban, account } = told;
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
  const owner = account === null ? "" : ` of account ${account}, plan ${told.plan}`;
  const when =
    told.decidedAt === null
      ? ""
      : `, decided ${formatInstant(told.decidedAt)} (${told.decidedBy ?? "store"})`;
  return [
    `${bold(`${status} ${code ?? ""}`.trim())}  ${request}${owner}${when}\n`,
    `${rule}\n`,
    windows.length === 0 ? "" : formatTable(terminal, names, rows),
    strikes === null
      ? ""
      : `Strikes: ${strikes}${ban === null ? "" : `; banned until ${formatInstant(ban.until)}`}\n`,
    passesAt === null
      ? ""
      : `It would pass from ${formatInstant(passesAt)} on, by what was counted then\n`,
    told.config === null ? "" : `Configuration ${told.config}, request ${id}\n`,
  ].join("");
}

type WhyBanned = {
  readonly account: string;
  readonly environment: string;
  readonly strikes: number;
  readonly ban: { readonly until: number; readonly offences: number } | null;
  readonly bans: readonly BanRecord[];
};

export const bansWhy: Verb = {
  name: "bans why",
  usage: "ID [--log FILE…] [--config FILE] [--json]",
  summary: "say which refused requests earned the bans of an account",
  options: [LOG, CONFIG, JSON_FLAG],
  args: ["ID"],
  more: true,
  example: "bans why a_8LwVnVUvnqzT",
  async run(call, terminal) {
    const reached = await reachGateway(call, terminal);
    if (typeof reached === "number") return reached;
    const { config } = reached;
    const [id = ""] = call.args;
    const files = logFilesOf(call, 1);
    const told = files.length > 0 ? await bansInLogs(files, id) : await bansOfGateway(config, id);
    if (!told.ok) return fail(terminal, EXIT_FAILURE, told.message);
    if (call.flag("json")) return printJson(terminal, told.value);
    terminal.out(whyText(told.value, terminal));
    return EXIT_OK;
  },
};

function bansOfGateway(config: Config, id: string): Promise<OperationResult<WhyBanned>> {
  return fetchAdmin<WhyBanned>(config, {
    path: `/api/bans/${encodeURIComponent(id)}`,
    members: ["account", "bans"],
    id,
  });
}

/** The lines of an account or of one of its keys, and the bans among them. */
async function bansInLogs(
  files: readonly string[],
  id: string,
): Promise<OperationResult<WhyBanned>> {
  const { readLogs } = await import("../../telemetry/log/read-log.ts");
  const { RecentRefusals } = await import("../../telemetry/history/diagnostics.ts");
  const recall = new RecentRefusals();
  let owner: { account: string; environment: string } | undefined;
  let strikes = 0;
  const earned: Readonly<Record<string, unknown>>[] = [];
  await readLogs(files, {
    request: (line) => {
      const { account, env: environment, key } = line;
      if (account === undefined || environment === undefined) return;
      if (account !== id && key !== id) return;
      owner = { account, environment };
      strikes = line.strikes ?? strikes;
      recall.note(line);
    },
    event: (line) => {
      if (line.msg === "event" && line.kind === "ban") earned.push(line);
    },
  });
  if (owner === undefined) {
    return { ok: false, message: `No line of ${files.join(", ")} is of the account or key ${id}` };
  }
  const { account, environment } = owner;
  const told = earned.filter((line) => line.account === account) as unknown as BanLine[];
  for (const { time, decidedAt = time, window, offences, until, observed } of told) {
    const ban = { account, environment, window, offences, until };
    recall.banned(observed === true ? { ...ban, observed } : ban, decidedAt);
  }
  const bans = await recall.bansOf(owner);
  return { ok: true, value: { account, environment, strikes, ban: null, bans } };
}

/** The members of the line of a ban that are needed here. */
type BanLine = {
  /** A ban that people imposed has none. */
  readonly decidedAt?: number;
  readonly time: number;
  readonly window: string;
  readonly offences: number;
  readonly until: number;
  readonly observed?: true;
};

function whyText(told: WhyBanned, terminal: Terminal): string {
  const { account, environment, strikes, ban, bans } = told;
  const now = ban === null ? "not banned" : `banned until ${formatInstant(ban.until)}`;
  const head = `Account ${account} (${environment}): ${now}, running strikes: ${strikes}\n`;
  if (bans.length === 0) return `${head}No ban of it is remembered\n`;
  const rows = bans.flatMap(({ at, until, window, offences, observed, strikes: counted }) => {
    const ends = observed === true ? "only observed" : `until ${formatInstant(until)}`;
    const by = `by the ${window} limit, offence ${offences}`;
    return [
      ["ban", formatInstant(at), `${ends}, ${offences === 0 ? "imposed by hand" : by}`],
      ...counted.map((strike) => ["strike", formatInstant(strike.at), `request ${strike.id}`]),
    ];
  });
  return `${head}${formatTable(terminal, ["", "AT", "WHAT"], rows)}`;
}
