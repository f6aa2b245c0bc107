import { formatCount } from "../../base/messages.ts";
import {
  callsOf,
  type Deprecation,
  deprecationReport,
  mergeDeprecations,
} from "../../config/queries/deprecations.ts";
import { DAY_MS } from "../../core/quota/days.ts";
import { EXIT_FAILURE, EXIT_OK, fail } from "../../server/process/process-context.ts";
import { type OperationResult, refused } from "../access/account-operations.ts";
import { fetchAllPages } from "../access/admin-client.ts";
import { distinctGateways } from "../access/distinct-gateways.ts";
import { type ReachedGateway, reachGateway } from "../access/reach.ts";
import { readDeprecatedCalls } from "../access/store-client.ts";
import { formatInstant, formatTable } from "../framework/table.ts";
import { printJson, showWait, type Terminal, WAITING_FOR_GATEWAY } from "../framework/terminal.ts";
import { CONFIG, FURTHER_ADMIN, JSON_FLAG, type Verb } from "../framework/verb.ts";

/** Lists deprecated operations with a sunset, and their callers. */
export const deprecations: Verb = {
  name: "deprecations",
  usage: "[--admin URL]… [--config FILE] [--json]",
  summary: "list deprecated operations, the days left, and the accounts that call them",
  options: [{ ...FURTHER_ADMIN, summary: "ask this gateway too" }, CONFIG, JSON_FLAG],
  args: [],
  example: "deprecations --json",
  async run(invocation, terminal) {
    const reached = await reachGateway(invocation, terminal, { asksSeveral: true });
    if (typeof reached === "number") return reached;
    const asked = await showWait(terminal, WAITING_FOR_GATEWAY, askGateways(reached));
    const told = await (reached.hasDescriptions ? reportByFile : reportOfGateways)(
      reached,
      asked,
      terminal.now(),
    );
    if (!told.ok) return fail(terminal, EXIT_FAILURE, told.message);
    if (invocation.flag("json")) printJson(terminal, told.value);
    else terminal.out(deprecationsText(told.value, terminal));
    const { missing = [] } = told;
    for (const why of missing) terminal.err(`Cannot tell who calls them: ${why}\n`);
    const silent = silentWorkers(asked);
    for (const part of silent) terminal.err(`Missing: ${part}\n`);
    return missing.length + silent.length > 0 ? EXIT_FAILURE : EXIT_OK;
  },
};

type Report = OperationResult<readonly Deprecation[]>;
type Asked = { readonly origin: string | undefined; readonly told: Report };

/** Asks each gateway for its report. A query makes a gateway flush to the store. */
async function askGateways({ config, admins }: ReachedGateway): Promise<readonly Asked[]> {
  const all: Asked[] = [];
  for (const origin of await distinctGateways(config, admins)) {
    const only = "the running gateway knows who calls";
    const question = { path: "/api/deprecations", origin, only };
    all.push({ origin, told: await fetchAllPages<Deprecation>(config, question) });
  }
  return all;
}

/** The workers that did not flush: what they counted is in no report. */
function silentWorkers(asked: readonly Asked[]): string[] {
  return asked.flatMap(({ origin, told }) => {
    const parts = (told.ok && told.missing) || [];
    return parts.map((part) => (origin === undefined ? part : `${part} of ${origin}`));
  });
}

/** If gateways share a store, only those of --admin must have answered. */
function failureOf(asked: readonly Asked[], sharesStore: boolean): string | undefined {
  for (const { origin, told } of asked) {
    if (!told.ok && (origin !== undefined || !sharesStore)) return told.message;
  }
  return undefined;
}

/** The operations of the descriptions, with the calls that the store has, or that gateways told. */
async function reportByFile(
  { config, sharesStore }: ReachedGateway,
  asked: readonly Asked[],
  nowMs: number,
): Promise<Report> {
  const failure = failureOf(asked, sharesStore);
  if (failure !== undefined) return refused(failure);
  if (!sharesStore) {
    const calls = callsOf(asked.flatMap(({ told }) => (told.ok ? told.value : [])));
    return { ok: true, value: deprecationReport(config, calls, nowMs) };
  }
  const stored = await readDeprecatedCalls(config);
  return stored.ok ? { ...stored, value: deprecationReport(config, stored.value, nowMs) } : stored;
}

/** The reports of gateways: on one store, the last has what all of them flushed before. */
async function reportOfGateways(
  { sharesStore, isRemote }: ReachedGateway,
  asked: readonly Asked[],
): Promise<Report> {
  const reports = asked.flatMap(({ told }) => (told.ok ? [told.value] : []));
  const silent = reports.length === 0 ? asked.find(({ told }) => !told.ok)?.told : undefined;
  const failure =
    failureOf(asked, sharesStore) ?? (silent?.ok === false ? silent.message : undefined);
  if (failure !== undefined) {
    const because = "What is deprecated is not known, as the file cannot be used: ";
    return refused(isRemote ? failure : `${because}${failure}`);
  }
  const value = mergeDeprecations((sharesStore ? reports.slice(-1) : reports).flat());
  const isUnknown = value.some(({ accounts }) => accounts === undefined);
  return { ok: true, value, ...(isUnknown && { missing: ["the gateway cannot ask its store"] }) };
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
      if (accounts === undefined) return `${head}  Who calls it is unknown\n`;
      // Gateways tell their calls to the store now and then (docs/reference/history.md#notes).
      if (accounts.length === 0) return `${head}  No account has called it up to a minute ago\n`;
      const rows = accounts.map(({ account, requests, last }) => {
        return [account, requests, formatInstant(last)];
      });
      return `${head}${formatTable(terminal, ["ACCOUNT", "REQUESTS", "LAST"], rows)}`;
    })
    .join("\n");
}
