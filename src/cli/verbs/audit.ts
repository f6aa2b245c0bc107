import { setTimeout as sleep } from "node:timers/promises";
import { formatCount } from "../../base/messages.ts";
import type { Config } from "../../config/config.ts";
import type { CountReport } from "../../core/keys/usage-reports.ts";
import { EXIT_FAILURE, EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { type AccountRef, accountId } from "../../stores/quotas/account-ref.ts";
import type { OpenCharge } from "../../telemetry/history/diagnostics.ts";
import type { AccountOperations, OperationResult } from "../access/account-operations.ts";
import { fetchAdmin, LIST } from "../access/admin-client.ts";
import { distinctGateways } from "../access/distinct-gateways.ts";
import { type ReachedGateway, reachGateway } from "../access/reach.ts";
import { askAccounts } from "../access/with-accounts.ts";
import type { Terminal } from "../framework/terminal.ts";
import {
  CONFIG,
  FURTHER_ADMIN,
  JSON_FLAG,
  LOG,
  logFilesOf,
  parseAdminOptions,
  type Verb,
} from "../framework/verb.ts";
import { dayBalances, readDays } from "../logs/audit-days.ts";
import {
  type AskedPeriod,
  type AuditInputs,
  parseAskedPeriod,
  unknownBalances,
  whyNothing,
} from "../logs/audit-periods.ts";
import { type AuditReport, printAudit } from "../logs/audit-report.ts";
import { isWindow, windowBalances } from "../logs/audit-windows.ts";
import { type AwayIn, Ledger } from "../logs/ledger.ts";
import { LogGaps } from "../logs/log-gaps.ts";
import { LogSpan } from "../logs/log-span.ts";
import { readLogsShown } from "../logs/read-shown.ts";

/** The line of a request is written within 200 ms of its end. */
const LINES_LATE_MS = 300;
/** If something differs, the store is asked again, because late charges may still arrive. */
const ROUNDS_MS = [LINES_LATE_MS, 1_000, 2_000];

/** Compares what the logs charged with the store's counts, by account and period. */
export const audit: Verb = {
  name: "audit",
  usage: "--log FILE… [--day D | --month M] [--admin URL]… [--config FILE] [--json]",
  summary: "compare the charges in logs with the counts of the store, by account and period",
  options: [
    { ...LOG, required: true },
    { name: "day", value: "2026-11-21", summary: "one day of UTC alone" },
    { name: "month", value: "2026-11", summary: "one month alone, by its days" },
    { ...FURTHER_ADMIN, summary: "a further gateway to ask for its requests under way" },
    CONFIG,
    JSON_FLAG,
  ],
  args: [],
  more: true,
  example: "audit --log gateway-1.log --log gateway-2.log.gz --day 2026-11-21",
  async run(invocation, terminal) {
    const admins = parseAdminOptions(invocation);
    if (typeof admins === "string") return fail(terminal, EXIT_USAGE, admins);
    const [day, month] = [invocation.text("day"), invocation.text("month")];
    const asked = parseAskedPeriod({ day, month });
    if (typeof asked === "string") return fail(terminal, EXIT_USAGE, asked);
    const reached = await reachGateway(invocation, terminal, { asksSeveral: true });
    if (typeof reached === "number") return reached;
    const origins = await distinctGateways(reached.config, admins);
    const auditor = { reached, origins, asked, files: logFilesOf(invocation, 0), terminal };
    const done = await askAccounts(reached, terminal, (accounts) => auditAll(auditor, accounts));
    if (!done.ok) return fail(terminal, EXIT_FAILURE, done.message);
    printAudit(done.value, terminal, invocation.flag("json"));
    return done.value.passes ? EXIT_OK : EXIT_FAILURE;
  },
};

type Auditor = {
  readonly reached: ReachedGateway;
  /** The gateways to ask: undefined is that of the configuration. */
  readonly origins: readonly (string | undefined)[];
  readonly asked: AskedPeriod | undefined;
  readonly files: readonly string[];
  readonly terminal: Terminal;
};

/**
 * Asks the store first, and notes the time by the store's clock. Then it waits until the lines of
 * the requests counted by then are written. So neither traffic nor the clock of this machine causes
 * drift. A further round asks for accounts that only the logs have, or again if something differs.
 */
async function auditAll(
  auditor: Auditor,
  accounts: AccountOperations,
): Promise<OperationResult<AuditReport>> {
  /** The accounts of the logs that the list of counts lacked in some round. */
  const further = new Map<string, AccountRef>();
  let report: AuditReport | undefined;
  for (const waitMs of ROUNDS_MS) {
    const listed = await accounts.counts();
    if (!listed.ok) return listed;
    const { missing = [] } = listed;
    const counts = [...listed.value];
    const unknown = new Map<string, string>();
    for (const [id, { account, environment }] of further) {
      const one = await accounts.countsOf({ id: account, environment });
      if (one.ok) counts.push(one.value);
      else unknown.set(id, one.message);
    }
    const round = await readRound(auditor, accounts, counts, waitMs);
    const unasked = [...missing, ...round.unasked];
    const told = await compare(auditor, accounts, { ...round, unasked, unknown, counts });
    report = missing.length > 0 ? { ...told, passes: false } : told;
    const { size } = further;
    for (const { account, environment, counts: known } of round.ledger.accounts) {
      const accountRef = { account, environment };
      if (known === undefined) further.set(accountId(accountRef), accountRef);
    }
    // A process that did not answer may do so in the next round.
    const differs = [...report.drift, ...(round.openUnknown ? report.notCompared : [])];
    const runs = differs.some(({ window }) => isWindow(window));
    if (further.size === size && !runs) break;
  }
  return { ok: true, value: report as AuditReport };
}

type Round = Omit<AuditInputs, "config" | "hasDescriptions"> & {
  readonly unasked: readonly string[];
  readonly missing: readonly string[];
};

async function readRound(
  auditor: Auditor,
  accounts: AccountOperations,
  counts: readonly CountReport[],
  waitMs: number,
): Promise<Round> {
  const { reached, origins } = auditor;
  const { config } = reached;
  const before = await askOpen(config, origins);
  await sleep(waitMs);
  let read = await readLines(auditor, counts);
  const listed = await accounts.gatewayNames();
  const names = listed.ok ? listed.value : [];
  const aliveBefore = Math.max(before.answered, names.length);
  const { incidents } = read;
  incidents.processes.setRunning(names);
  // All lines tell which outages go on, and only then is it known which lines came since.
  if (incidents.areAway) {
    read = await readLines(auditor, counts, (...of) => incidents.awayIn(...of, aliveBefore));
    read.incidents.processes.setRunning(names);
  }
  const after = await askOpen(config, origins);
  return {
    ...{ ...read, openBefore: before.open, openAfter: after.open },
    alive: Math.max(aliveBefore, after.answered),
    unasked: [...new Set([...before.silent, ...after.silent, ...after.unasked])],
    openUnknown: before.silent[0] ?? untoldOpen(before.answered, names.length),
  };
}

async function readLines(
  { reached, files, terminal }: Auditor,
  counts: readonly CountReport[],
  awayIn?: AwayIn,
) {
  const ledger = new Ledger(counts, reached.config.environments, awayIn);
  const [span, gaps] = [new LogSpan(), new LogGaps()];
  const damage = await readLogsShown(files, terminal, {
    request: (line) => {
      const atMs = line.decidedAt ?? line.time;
      span.line(atMs);
      gaps.request(line);
      ledger.request(line);
    },
    event: (line) => {
      // Without a time this is NaN, which moves neither end of the span.
      span.line(Number(line.time));
      gaps.event(line);
      ledger.event(line);
    },
  });
  const missing = [...damage, ...gaps.describe(undefined)];
  return { ledger, incidents: gaps.incidents, span, missing };
}

const UNKNOWN_OPEN = "requests under way are not known";

/** A gateway that was killed a moment ago still beats, and what was open in it has no line. */
function untoldOpen(answered: number, running: number): string | undefined {
  if (answered >= running) return undefined;
  return `${UNKNOWN_OPEN}: ${answered} of ${formatCount(running, "running gateway")} told them`;
}

/** `silent` names the processes that do not answer, of gateways that do. */
async function askOpen(config: Config, origins: Auditor["origins"]) {
  const open: OpenCharge[] = [];
  const unasked: string[] = [];
  const silent: string[] = [];
  let answered = 0;
  for (const origin of origins) {
    const question = { path: "/api/open", members: LIST, origin };
    const answer = await fetchAdmin<readonly OpenCharge[]>(config, question);
    if (answer.ok) for (const one of answer.value) open.push(one);
    else unasked.push(`${UNKNOWN_OPEN}: ${answer.message}`);
    for (const worker of (answer.ok && answer.missing) || []) {
      silent.push(`${UNKNOWN_OPEN}: no answer from ${worker} of ${origin ?? "the gateway"}`);
    }
    answered += answer.ok ? 1 : 0;
  }
  return { open, unasked, silent, answered };
}

type RoundCounts = Round & {
  readonly counts: readonly CountReport[];
  /** By account of the logs: why its counts are not known. */
  readonly unknown: ReadonlyMap<string, string>;
};

async function compare(
  auditor: Auditor,
  accounts: AccountOperations,
  round: RoundCounts,
): Promise<AuditReport> {
  const { reached, asked, terminal } = auditor;
  const { config, hasDescriptions } = reached;
  const inputs: AuditInputs = { config, hasDescriptions, ...round };
  const nowMs = round.counts.reduce((last, { at }) => Math.max(last, at), 0) || terminal.now();
  const days = await readDays({ ...round, config, asked, nowMs }, accounts);
  const balances = [...windowBalances(inputs, asked), ...dayBalances(inputs, days.rows, nowMs)];
  const of = (verdict: string) => balances.filter((one) => one.verdict === verdict);
  const unknown = unknownBalances(round.ledger, round.unknown, asked);
  const found = balances.length + days.matched + days.notCompared.length + unknown.length;
  const notCompared = [
    ...of("not compared"),
    ...days.notCompared,
    ...unknown,
    ...(found === 0 && !days.isIdle ? whyNothing(asked, nowMs, round.ledger.charged) : []),
  ];
  const matched = of("matched").length + days.matched;
  const explained = of("explained");
  const drift = of("drift");
  const hasCompared = matched + explained.length > 0 || days.isIdle;
  return {
    ...{ matched, explained, drift, notCompared, span: round.span.span },
    accounts: new Set([...round.counts.map(accountId), ...round.unknown.keys()]).size,
    charged: round.ledger.charged,
    open: balances.filter(({ open }) => open !== 0),
    missing: [...round.missing, ...round.unasked],
    passes: drift.length === 0 && hasCompared && (asked === undefined || notCompared.length === 0),
  };
}
