import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../../config/config.ts";
import type { UsageReport } from "../../core/keys/reports.ts";
import { dayOf } from "../../core/quota/days.ts";
import { EXIT_FAILURE, EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { DAYS_MAX } from "../../stores/queries/read-history.ts";
import type { OpenCharge } from "../../telemetry/history/diagnostics.ts";
import type { AccountOperations, OperationResult } from "../access/account-operations.ts";
import { fetchAdmin, LIST } from "../access/admin-client.ts";
import { runAccountOperation } from "../access/with-accounts.ts";
import { readConfig } from "../framework/config-file.ts";
import { formatTable } from "../framework/table.ts";
import { openProgress, printJson, type Terminal } from "../framework/terminal.ts";
import {
  CONFIG,
  type Invocation,
  JSON_FLAG,
  LOG,
  logFilesOf,
  parseAdminOptions,
  type Verb,
} from "../framework/verb.ts";
import { type Balance, balances } from "../logs/balance.ts";
import { type DayBalance, DayComparison } from "../logs/day-comparison.ts";
import { Ledger } from "../logs/ledger.ts";
import { LogGaps } from "../logs/log-gaps.ts";

/** A line is written within 200 ms of the end of its request. */
const LINES_LATE_MS = 300;

/** Compares what the logs charged with what the store counts, account by account. */
export const audit: Verb = {
  name: "audit",
  usage: "--log FILE… [--admin URL]… [--config FILE] [--json]",
  summary: "compare the charges in logs with the counts of the store, account by account",
  options: [
    { ...LOG, required: true },
    {
      name: "admin",
      value: "URL",
      repeats: true,
      summary: "a further gateway to ask for its requests under way",
    },
    CONFIG,
    JSON_FLAG,
  ],
  args: [],
  more: true,
  example: "audit --log gateway-1.log --log gateway-2.log.gz --admin http://10.0.0.2:9090",
  async run(call, terminal) {
    const config = await readConfig(call, terminal);
    if (typeof config === "number") return config;
    const admins = parseAdminOptions(call);
    if (typeof admins === "string") return fail(terminal, EXIT_USAGE, admins);
    const files = logFilesOf(call, 0);
    const first = await read(files, terminal);
    const asked = await ask(config, admins, terminal, first.ledger);
    if (!asked.ok) return fail(terminal, EXIT_FAILURE, asked.message);
    const { reports, days, open, unasked, atMs } = asked.value;
    const balanced = (ledger: Ledger, underWay: readonly OpenCharge[]) => {
      return [...balances(reports, ledger, underWay), ...days.balances(ledger, underWay)];
    };
    let found = balanced(first.ledger, []);
    let last = first;
    if (found.some(({ drift }) => drift !== 0)) {
      // Requests that ended since have their lines by now; those decided later do not count.
      await sleep(LINES_LATE_MS);
      last = await read(files, terminal, atMs);
      found = balanced(last.ledger, open);
    }
    const { parts } = asked.value;
    const missing = [...last.missing, ...days.missing(), ...unasked, ...parts];
    const status = say({ call, terminal, found, missing, charged: last.ledger.charged });
    return parts.length > 0 ? EXIT_FAILURE : status;
  },
};

type Read = { readonly ledger: Ledger; readonly missing: readonly string[] };

async function read(files: readonly string[], terminal: Terminal, untilMs?: number): Promise<Read> {
  const { readLogs } = await import("../../telemetry/log/read-log.ts");
  const ledger = new Ledger();
  const missing = new LogGaps();
  const progress = openProgress(terminal, "Reading");
  const tally = await readLogs(files, {
    request: (line) => {
      missing.request(line);
      ledger.add(line, untilMs);
    },
    event: (line) => {
      missing.event(line);
      ledger.event(line);
    },
    progress: progress.tell,
  }).finally(progress.end);
  const damaged =
    tally.damaged === 0
      ? []
      : [`${tally.damaged} lines are damaged and left out, the first at ${tally.firstDamage}`];
  return { ledger, missing: [...damaged, ...missing.told("day")] };
}

type Asked = {
  readonly reports: readonly UsageReport[];
  /** Days that are over and differ from the log. */
  readonly days: DayComparison;
  readonly open: readonly OpenCharge[];
  /** Accounts and gateways of which nothing could be learned, in words. */
  readonly unasked: readonly string[];
  /** Parts of the store that did not answer, and their nodes, in words. */
  readonly parts: readonly string[];
  /** When the store was asked. */
  readonly atMs: number;
};

/** The counts of all accounts first, then what is under way: a request that ends between has a line. */
async function ask(
  config: Config,
  admins: readonly string[],
  terminal: Terminal,
  ledger: Ledger,
): Promise<OperationResult<Asked>> {
  const atMs = terminal.now();
  const unasked: string[] = [];
  const days = new DayComparison(ledger, dayOf(atMs));
  const counted = await runAccountOperation(config, terminal, async (accounts) => {
    const counts = await countsOf(accounts, ledger, unasked);
    if (counts.ok)
      await compareDays({ config, accounts, counts: counts.value, ledger, days, unasked, atMs });
    return counts;
  });
  if (!counted.ok) return counted;
  const open: OpenCharge[] = [];
  for (const origin of [undefined, ...admins]) {
    const question = {
      path: "/api/open",
      members: LIST,
      ...(origin === undefined ? {} : { origin }),
    };
    const answer = await fetchAdmin<readonly OpenCharge[]>(config, question);
    if (answer.ok) open.push(...answer.value);
    else unasked.push(`requests under way are not known: ${answer.message}`);
  }
  const parts = (counted.missing ?? []).map((part) => `the counts of ${part}`);
  return { ok: true, value: { reports: counted.value, days, open, unasked, parts, atMs } };
}

type DaysAsked = {
  readonly config: Config;
  readonly accounts: AccountOperations;
  readonly counts: readonly UsageReport[];
  readonly ledger: Ledger;
  readonly days: DayComparison;
  readonly unasked: string[];
  readonly atMs: number;
};

/** Compares the days since the log began with the history, where there is one. */
async function compareDays(asked: DaysAsked): Promise<void> {
  const { config, accounts, counts, ledger, days, unasked, atMs } = asked;
  const today = dayOf(atMs);
  const { historyMs } = config;
  if (historyMs === undefined || ledger.firstDay === undefined || ledger.firstDay >= today) return;
  const period = { days: Math.min(today - ledger.firstDay + 1, DAYS_MAX) };
  const told = await accounts.history({ period }, (rows) => days.compare(rows));
  if (!told.ok) {
    unasked.push(`the days that are over are not compared: ${told.message}`);
    return;
  }
  const known = new Set(counts.map(({ account }) => account));
  days.end((account) => known.has(account) && !account.startsWith("addr:"));
}

/** All accounts that have a record, and those that the log alone knows. */
async function countsOf(
  accounts: AccountOperations,
  ledger: Ledger,
  unasked: string[],
): Promise<OperationResult<readonly UsageReport[]>> {
  const all = await accounts.usageOfAll({});
  if (!all.ok) return all;
  const known = new Set(all.value.map(({ account }) => account));
  const further: UsageReport[] = [];
  for (const { account, environment } of ledger.accounts) {
    if (known.has(account)) continue;
    const one = await accounts.usage({ id: account, environment });
    if (one.ok) further.push(one.value);
    else unasked.push(`the counts of ${account} are not known: ${one.message}`);
  }
  return { ...all, value: [...all.value, ...further] };
}

type AnyBalance = Balance | DayBalance;

type Outcome = {
  readonly call: Invocation;
  readonly terminal: Terminal;
  readonly found: readonly AnyBalance[];
  readonly missing: readonly string[];
  readonly charged: number;
};

function say({ call, terminal, found, missing, charged }: Outcome): number {
  const drift = found.filter((one) => one.drift !== 0);
  const open = found.filter((one) => one.open !== 0);
  const accounts = new Set(found.map(({ environment, account }) => `${environment}:${account}`));
  const status = drift.length === 0 ? EXIT_OK : EXIT_FAILURE;
  if (call.flag("json")) {
    printJson(terminal, { accounts: accounts.size, charged, drift, open, missing });
    return status;
  }
  terminal.out(`${accounts.size} accounts, ${charged} units in the logs\n`);
  const rows = (list: readonly AnyBalance[]) =>
    formatTable(
      terminal,
      ["ACCOUNT", "ENVIRONMENT", "WINDOW", "CHARGED", "COUNTED", "RESET", "OPEN", "DRIFT"],
      list.map((one) => [
        ...[one.account, one.environment, one.window],
        ...[one.charged, one.counted, one.reset, one.open, one.drift],
      ]),
    );
  if (drift.length > 0) terminal.out(rows(drift));
  else terminal.out("What was charged is what the store counts\n");
  const underWay = open.filter((one) => one.drift === 0);
  if (underWay.length > 0) terminal.out(`Under way, without a line yet:\n${rows(underWay)}`);
  for (const one of missing) terminal.out(`Missing: ${one}\n`);
  return status;
}
