import type { KeyRecord } from "../../core/keys/key.ts";
import { findKeys } from "../../core/keys/keyring.ts";
import { keyReport } from "../../core/keys/report.ts";
import { DONE } from "../../server/process/process-door.ts";
import { instant, table } from "../frame/table.ts";
import { printJson, type Terminal } from "../frame/terminal.ts";
import { CONFIG, JSON_FLAG, type Verb } from "../frame/verb.ts";
import { failRefused, withKeys } from "../stores/with-keys.ts";

export const keysList: Verb = {
  name: "keys list",
  usage: "[--config FILE] [--json]",
  summary: "list all keys, oldest first",
  options: [CONFIG, JSON_FLAG],
  example: "keys list --json",
  args: [],
  run: (call, terminal) =>
    withKeys(call, terminal, async (keys) => {
      const records = keys.list();
      if (call.flag("json")) return printJson(terminal, records.map(keyReport));
      if (records.length > 0) terminal.out(keyTable(records, terminal));
      else terminal.out("There are no keys: issue one with `keys create`\n");
      return DONE;
    }),
};

export const keysShow: Verb = {
  name: "keys show",
  usage: "ID [--config FILE] [--json]",
  summary: "show a key, or all keys of an account",
  options: [CONFIG, JSON_FLAG],
  example: "keys show k_DuPp26ojICLZ",
  args: ["ID"],
  run: (call, terminal) =>
    withKeys(call, terminal, async (keys) => {
      const found = findKeys(keys.list(), call.args[0] ?? "");
      if (!found.ok) return failRefused(terminal, found);
      const shown = found.key === undefined ? found.keys : [found.key];
      const [only] = shown;
      if (call.flag("json")) {
        return printJson(terminal, found.key ? keyReport(found.key) : shown.map(keyReport));
      }
      if (shown.length === 1 && only !== undefined) terminal.out(keyText(only, terminal));
      else terminal.out(keyTable(shown, terminal));
      return DONE;
    }),
};

function keyTable(records: readonly KeyRecord[], terminal: Terminal): string {
  const names = ["ID", "NAME", "PLAN", "ENVIRONMENT", "ACCOUNT", "STATE"];
  const rows = records.map((record) => {
    const { id, name, plan, environment, account } = record;
    return [id, name, plan, environment, account, stateOf(record, terminal.now())];
  });
  return table(terminal, names, rows);
}

function keyText(record: KeyRecord, terminal: Terminal): string {
  const told = keyReport(record);
  const limits = Object.entries(told.limits).map(([window, limit]) => `${window}=${limit}`);
  const rows = [
    ["name", told.name],
    ["plan", told.plan],
    ["environment", told.environment],
    ["account", told.account],
    ["limits", limits.join(" ") || "those of the plan"],
    ["scopes", told.scopes.join(" ") || "none"],
    ["created", instant(told.created)],
    ["state", stateOf(record, terminal.now())],
  ];
  return `${told.id}\n${rows.map(([name = "", value]) => `  ${name.padEnd(12)} ${value}\n`).join("")}`;
}

function stateOf(record: KeyRecord, nowMs: number): string {
  const { expires, revoked } = keyReport(record);
  if (revoked !== null) return `revoked ${instant(revoked)}`;
  if (record.expiresMs === undefined || expires === null) return "works";
  if (record.expiresMs <= nowMs) return `expired ${instant(expires)}`;
  const next = record.replacedBy === undefined ? "" : `, then ${record.replacedBy}`;
  return `works until ${instant(expires)}${next}`;
}
