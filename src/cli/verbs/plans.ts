import { existsSync } from "node:fs";
import { formatCount } from "../../base/messages.ts";
import { formatMistake } from "../../config/file/mistake.ts";
import { type PlanReport, plansReport } from "../../config/queries/plans-report.ts";
import type { Limit } from "../../core/quota/windows.ts";
import { EXIT_CONFIG, EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { readRecords, withKeys } from "../access/with-keys.ts";
import { DEFAULT_FILE, holdsKey, KEY_IN_ARGUMENT, readConfig } from "../framework/config-file.ts";
import { formatInstant, formatTable } from "../framework/table.ts";
import { printJson, type Terminal } from "../framework/terminal.ts";
import {
  CONFIG,
  GATEWAY_OPTIONS,
  type Invocation,
  JSON_FLAG,
  LOG,
  logFilesOf,
  type Verb,
} from "../framework/verb.ts";
import { LogGaps } from "../logs/log-gaps.ts";
import { readLogsShown } from "../logs/read-shown.ts";
import { type AccountReplay, TrafficReplay } from "../logs/traffic-replay.ts";

const list: Verb = {
  name: "plans list",
  usage: "[--admin URL] [--config FILE] [--json]",
  summary: "list the plans, their limits, and how many accounts are on each",
  options: GATEWAY_OPTIONS,
  args: [],
  example: "plans list --json",
  run: (invocation, terminal) =>
    withKeys(invocation, terminal, async (keys, { config }) => {
      const plans = plansReport(config, keys.records().accounts);
      if (invocation.flag("json")) return printJson(terminal, plans);
      const hasIncluded = plans.some(({ included }) => included.length > 0);
      const rows = plans.map((row) => [
        row.plan,
        [row.custom ? "agreed per account" : worded(row.limits), ...wordedMeters(row)].join(" "),
        ...(hasIncluded ? [worded(row.included)] : []),
        worded(row.observe),
        row.concurrent ?? "-",
        row.accounts,
      ]);
      const included = hasIncluded ? ["INCLUDED"] : [];
      const names = ["PLAN", "LIMITS", ...included, "OBSERVED", "CONCURRENT", "ACCOUNTS"];
      terminal.out(formatTable(terminal, names, rows));
      return EXIT_OK;
    }),
};

function worded(limits: readonly Pick<Limit, "window" | "limit">[]): string {
  return limits.map(({ window, limit }) => `${window}=${limit}`).join(" ") || "-";
}

function wordedMeters({ meters }: PlanReport): string[] {
  return Object.entries(meters).flatMap(([meter, limits]) =>
    limits.length === 0
      ? [`${meter}=unlimited`]
      : limits.map(({ window, limit }) => `${meter}.${window}=${limit}`),
  );
}

const tryOut: Verb = {
  name: "plans try",
  usage: "NEW.yaml --log FILE… [--config FILE] [--json]",
  summary: "tell who would be newly limited or banned: decides the requests of logs by new plans",
  options: [{ ...LOG, required: true }, CONFIG, JSON_FLAG],
  args: ["NEW.yaml"],
  more: true,
  example: "plans try new-plans.yaml --log gateway-1.log --log gateway-2.log.gz",
  async run(invocation, terminal) {
    const files = logFilesOf(invocation, 1);
    const trial = await trialOf(invocation, terminal);
    if (typeof trial === "number") return trial;
    const traffic = new TrafficReplay(trial);
    const missing = new LogGaps();
    const damage = await readLogsShown(files, terminal, {
      request: (line) => {
        missing.request(line);
        traffic.add(line);
      },
      event: (line) => missing.event(line),
    });
    const tried = [...traffic.tried()];
    const lacking = [
      ...damage,
      ...missing.describe(traffic.longest, traffic.calendars),
      ...traffic.untried(),
      ...traffic.left(),
    ];
    return say({ invocation, terminal, tried, lacking, traffic, span: missing.span });
  },
};

/** The plans to try, with the accounts and operations to try them on. */
async function trialOf(invocation: Invocation, terminal: Terminal) {
  const { loadPlans } = await import("../../config/load/load-plans.ts");
  const loaded = await loadPlans(invocation.args[0] ?? "", terminal.env);
  if (!loaded.ok) {
    return fail(terminal, EXIT_CONFIG, loaded.mistakes.map(formatMistake).join("\n"));
  }
  // The keys of a copy of the configuration elsewhere are not those of the logs.
  const isAlone = invocation.text("config") === undefined && !existsSync(DEFAULT_FILE);
  const own = isAlone ? loaded.config : undefined;
  const config = own ?? (await readConfig(invocation, terminal));
  if (typeof config === "number") return config;
  if ([config, loaded.config ?? config].some((each) => holdsKey(invocation, each))) {
    return fail(terminal, EXIT_USAGE, KEY_IN_ARGUMENT);
  }
  const { accounts } = await readRecords(config, terminal);
  if (loaded.config !== undefined) {
    return { plans: loaded.config, environments: loaded.config.environments, accounts };
  }
  const bans = loaded.hasBans ? loaded.plans.bans : config.bans;
  return { plans: { ...loaded.plans, bans }, environments: config.environments, accounts };
}

type Outcome = {
  readonly invocation: Invocation;
  readonly terminal: Terminal;
  readonly tried: readonly AccountReplay[];
  readonly lacking: readonly string[];
  readonly traffic: TrafficReplay;
  readonly span: LogGaps["span"];
};

function say({ invocation, terminal, tried, lacking, traffic, span }: Outcome): number {
  const { requests, accounts } = traffic;
  if (invocation.flag("json")) {
    return printJson(terminal, {
      requests,
      from: span === undefined ? null : seconds(span.firstMs),
      to: span === undefined ? null : seconds(span.lastMs),
      accounts: tried.map(reportOf),
      missing: lacking,
    });
  }
  const rows = tried.map(({ account, environment, plan, ...rest }) => [
    ...[account, environment, plan, rest.limited, rest.window ?? "-", since(rest.limitedSinceMs)],
    ...[rest.banned, rest.bans, since(rest.bannedSinceMs), rest.admitted + rest.unbanned],
  ]);
  const names = [
    ...["ACCOUNT", "ENVIRONMENT", "PLAN", "LIMITED", "WINDOW", "SINCE"],
    ...["BANNED", "BANS", "SINCE", "EASED"],
  ];
  const when = span === undefined ? "" : `, ${since(span.firstMs)} to ${since(span.lastMs)}`;
  terminal.out(
    `${formatCount(requests, "request")} of ${formatCount(accounts, "account")}${when}\n`,
  );
  const each = traffic.untried().length === 0 ? "Each" : "By what is tried, each";
  terminal.out(
    tried.length === 0
      ? `${each} would be decided as it was: no account is newly limited or banned\n`
      : formatTable(terminal, names, rows),
  );
  for (const one of lacking) terminal.out(`Missing: ${one}\n`);
  return EXIT_OK;
}

function reportOf({ limitedSinceMs, bannedSinceMs, window, ...rest }: AccountReplay) {
  return {
    ...rest,
    window: window ?? null,
    limitedSince: limitedSinceMs === undefined ? null : seconds(limitedSinceMs),
    bannedSince: bannedSinceMs === undefined ? null : seconds(bannedSinceMs),
  };
}

function since(ms: number | undefined): string {
  return ms === undefined ? "-" : formatInstant(seconds(ms));
}

function seconds(ms: number): number {
  return Math.floor(ms / 1_000);
}

export const plans: readonly Verb[] = [list, tryOut];
