import { revokeKey, rotateKey } from "../../core/keys/keyring.ts";
import { keyReport } from "../../core/keys/report.ts";
import { DONE, fail, WRONG_USAGE } from "../../server/process/process-door.ts";
import { instant } from "../frame/table.ts";
import { printJson } from "../frame/terminal.ts";
import { CONFIG, JSON_FLAG, readPeriod, type Verb } from "../frame/verb.ts";
import {
  changeKeys,
  failRefused,
  issuedReport,
  issuedText,
  ringOf,
  withKeys,
} from "../stores/with-keys.ts";

/** A rotated key works on for this long unless told otherwise (docs/reference/keys.md#rotation). */
const GRACE_MS = 24 * 3_600_000;

export const keysRotate: Verb = {
  name: "keys rotate",
  usage: "ID [--grace 24h] [--config FILE] [--json]",
  summary: "issue the successor of a key, with the same account and quota",
  options: [
    { name: "grace", value: "24h", summary: "how long the old key works on (24h)" },
    CONFIG,
    JSON_FLAG,
  ],
  example: "keys rotate k_DuPp26ojICLZ --grace 24h",
  args: ["ID"],
  run(call, terminal) {
    const graceMs = readPeriod(call, "grace") ?? GRACE_MS;
    if (typeof graceMs === "string") return Promise.resolve(fail(terminal, WRONG_USAGE, graceMs));
    return withKeys(call, terminal, async (keys, config) => {
      const options = { ...ringOf(config, terminal.now()), graceMs };
      const id = call.args[0] ?? "";
      const edited = await changeKeys(keys, (records) => rotateKey(records, id, options));
      if (!edited.ok) return failRefused(terminal, edited);
      const previous = keyReport(edited.previous);
      if (call.flag("json")) {
        return printJson(terminal, { ...issuedReport(edited.issued), previous });
      }
      terminal.out(issuedText(edited.issued, config));
      if (previous.expires !== null) {
        terminal.out(`The old key ${previous.id} works until ${instant(previous.expires)}\n`);
      }
      return DONE;
    });
  },
};

export const keysRevoke: Verb = {
  name: "keys revoke",
  usage: "ID [--config FILE] [--json]",
  summary: "end a key at once and for ever",
  options: [CONFIG, JSON_FLAG],
  example: "keys revoke k_DuPp26ojICLZ",
  args: ["ID"],
  run: (call, terminal) =>
    withKeys(call, terminal, async (keys) => {
      const nowMs = terminal.now();
      const id = call.args[0] ?? "";
      const edited = await changeKeys(keys, (records) => revokeKey(records, id, nowMs));
      if (!edited.ok) return failRefused(terminal, edited);
      if (call.flag("json")) return printJson(terminal, keyReport(edited.revoked));
      terminal.out(`Key ${edited.revoked.id} is revoked\n`);
      return DONE;
    }),
};
