import { quoteValue } from "../../base/messages.ts";
import { findKeys, unknownIdRefusal } from "../../core/keys/find-records.ts";
import { digestKey } from "../../core/keys/key.ts";
import type { KeyReport } from "../../core/keys/record-reports.ts";
import { type KeyRecord, keyState } from "../../core/keys/records.ts";
import { roundUpToSeconds } from "../../core/quota/whole-seconds.ts";
import { EXIT_FAILURE, EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { recordsTrouble } from "../access/gateway-differences.ts";
import { withLastUsed } from "../access/last-used.ts";
import { nameOptionsError } from "../access/unknown-names.ts";
import {
  failWithRefusal,
  listExitStatus,
  readKeyFromStdin,
  withKeys,
} from "../access/with-keys.ts";
import { formatFacts, formatInstant, formatPairs, formatTable } from "../framework/table.ts";
import { printJson, type Terminal } from "../framework/terminal.ts";
import { GATEWAY_OPTIONS, type Invocation, type Verb } from "../framework/verb.ts";

const STATES = ["works", "expired", "revoked"] as const;

export const keysList: Verb = {
  name: "keys list",
  usage:
    "[--env ENV] [--plan PLAN] [--account ID] [--state STATE] [--admin URL] [--config FILE] [--json]",
  summary: "list keys, oldest first",
  example: "keys list --env production --state works",
  options: [
    { name: "env", value: "ENV", summary: "those of this environment" },
    { name: "plan", value: "PLAN", summary: "those on this plan" },
    { name: "account", value: "ID", summary: "those of this account" },
    {
      name: "state",
      value: "STATE",
      choices: STATES,
      summary: `those in this state: ${STATES.join(", ")}`,
    },
    ...GATEWAY_OPTIONS,
  ],
  args: [],
  run: async (invocation, terminal) => {
    const wanted = invocation.text("state");
    if (wanted !== undefined && !STATES.some((state) => state === wanted)) {
      const message = `Unknown --state ${quoteValue(wanted)}: expected ${STATES.join(", ")}`;
      return fail(terminal, EXIT_USAGE, message);
    }
    return withKeys(invocation, terminal, async (keys, reached) => {
      const records = keys.records();
      const strange = nameOptionsError(invocation, reached, records);
      if (strange !== undefined) return fail(terminal, strange.status, strange.message);
      const account = invocation.text("account");
      if (account !== undefined && !records.accounts.some(({ id }) => id === account)) {
        return failWithRefusal(terminal, unknownIdRefusal(account));
      }
      const plans = new Map(records.accounts.map(({ id, plan }) => [id, plan]));
      const chosen = records.keys.filter(
        (key) =>
          isWanted(invocation.text("env"), key.environment) &&
          isWanted(invocation.text("plan"), plans.get(key.account)) &&
          isWanted(account, key.account) &&
          isWanted(wanted, keyState(key, terminal.now())),
      );
      const reports = await withLastUsed(chosen, records, { config: reached.config, terminal });
      const trouble =
        records.keys.length > 0 ? undefined : await recordsTrouble(reached.config, terminal);
      if (invocation.flag("json")) printJson(terminal, reports);
      else if (chosen.length > 0) terminal.out(keyTable(chosen, reports, terminal));
      else if (records.keys.length > 0) terminal.out("No key matches\n");
      else if (trouble === undefined)
        terminal.out("There are no keys: issue one with `keys create`\n");
      if (trouble !== undefined)
        return fail(terminal, EXIT_FAILURE, `No keys are found: ${trouble}`);
      return listExitStatus(keys);
    });
  },
};

function isWanted(wanted: string | undefined, found: string | undefined): boolean {
  return wanted === undefined || wanted === found;
}

export const keysShow: Verb = {
  name: "keys show",
  usage: "ID [--admin URL] [--config FILE] [--json]",
  summary: "show a key, or all keys of an account",
  example: "keys show k_4fPqX1mZ0aBc",
  options: GATEWAY_OPTIONS,
  args: ["ID"],
  run: (invocation, terminal) =>
    withKeys(invocation, terminal, async (keys, { config }) => {
      const records = keys.records();
      const found = findKeys(records, invocation.args[0] ?? "");
      if (!found.ok) return failWithRefusal(terminal, found);
      const { key, keys: all } = found;
      const chosen = key === undefined ? all : [key];
      const reports = await withLastUsed(chosen, records, { config, terminal });
      // An account has a list of keys for programs, also if it is one key.
      if (key === undefined && invocation.flag("json")) return printJson(terminal, reports);
      const [only, ...others] = chosen;
      if (only !== undefined && others.length === 0)
        return showKey(only, reports, { invocation, terminal });
      terminal.out(keyTable(chosen, reports, terminal));
      return EXIT_OK;
    }),
};

export const keysFind: Verb = {
  name: "keys find",
  usage: "- [--admin URL] [--config FILE] [--json]",
  summary: "show the key that is read from stdin, also if it is expired or revoked",
  example: "keys find - < key.txt",
  options: GATEWAY_OPTIONS,
  args: ["-"],
  run: async (invocation, terminal) => {
    const key = await readKeyFromStdin(invocation, terminal);
    if (key === undefined) return EXIT_USAGE;
    return withKeys(invocation, terminal, async (keys, { config }) => {
      const digest = digestKey(key);
      const record = keys.records().keys.find((one) => one.digest === digest);
      if (record === undefined) return fail(terminal, EXIT_FAILURE, "This key is not known here");
      const reports = await withLastUsed([record], keys.records(), { config, terminal });
      return showKey(record, reports, { invocation, terminal });
    });
  },
};

function showKey(
  key: KeyRecord,
  reports: readonly KeyReport[],
  { invocation, terminal }: { readonly invocation: Invocation; readonly terminal: Terminal },
): number {
  const [report] = reports as readonly [KeyReport];
  if (invocation.flag("json")) return printJson(terminal, report);
  terminal.out(keyText(key, report, terminal));
  return EXIT_OK;
}

function keyTable(
  keys: readonly KeyRecord[],
  reports: readonly KeyReport[],
  terminal: Terminal,
): string {
  const names = ["ID", "NAME", "PLAN", "ENVIRONMENT", "ACCOUNT", "LAST USED", "STATE"];
  const rows = keys.map((key, i) => {
    const { id, name, plan, environment, account, lastUsed } = reports[i] as KeyReport;
    const state = stateText(key, terminal.now());
    return [id, name, plan, environment, account, lastUsedText(lastUsed), state];
  });
  return formatTable(terminal, names, rows);
}

function keyText(key: KeyRecord, report: KeyReport, terminal: Terminal): string {
  return formatFacts(report.id, [
    ["name", report.name],
    ["plan", report.plan],
    ["environment", report.environment],
    ["account", report.account],
    ["limits", formatPairs(report.limits) || "those of the plan"],
    ["caps", formatPairs(report.caps) || "none"],
    ["scopes", report.scopes.join(" ") || "none"],
    ["from", report.from.join(" ") || "anywhere"],
    ["created", formatInstant(report.created)],
    ["last used", lastUsedText(report.lastUsed)],
    ["state", stateText(key, terminal.now())],
  ]);
}

function lastUsedText(day: string | null | undefined): string {
  return day === undefined ? "unknown" : (day ?? "never");
}

function stateText(key: KeyRecord, nowMs: number): string {
  const at = (instantMs: number | undefined) => formatInstant(roundUpToSeconds(instantMs ?? 0));
  const state = keyState(key, nowMs);
  if (state === "revoked") return `revoked ${at(key.revokedMs)}`;
  if (state === "expired") return `expired ${at(key.expiresMs)}`;
  if (key.expiresMs === undefined) return "works";
  const next = key.replacedBy === undefined ? "" : `, then ${key.replacedBy}`;
  return `works until ${at(key.expiresMs)}${next}`;
}
