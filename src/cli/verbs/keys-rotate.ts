import { ROTATION_GRACE_MS, revokeKeys, rotateKey } from "../../core/keys/edit-keys.ts";
import type { EditResult } from "../../core/keys/edit-rules.ts";
import { pickKey } from "../../core/keys/find-records.ts";
import { digestKey } from "../../core/keys/key.ts";
import { issuedReport, keyReports } from "../../core/keys/record-reports.ts";
import type { KeyRecord, Records } from "../../core/keys/records.ts";
import { EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { failIfBroken } from "../access/reach.ts";
import {
  issuedText,
  readKeyFromStdin,
  unshownText,
  withEdit,
  withKeys,
} from "../access/with-keys.ts";
import { formatInstant } from "../framework/table.ts";
import { printJson } from "../framework/terminal.ts";
import { GATEWAY_OPTIONS, parsePeriodOption, type Verb } from "../framework/verb.ts";

export const keysRotate: Verb = {
  name: "keys rotate",
  usage: "ID [--grace 24h] [--admin URL] [--config FILE] [--json]",
  summary: "issue the successor of a key, with the same account and quota",
  example: "keys rotate k_4fPqX1mZ0aBc --grace 7d",
  options: [
    { name: "grace", value: "24h", summary: "how long the old key works on (24h)" },
    ...GATEWAY_OPTIONS,
  ],
  args: ["ID"],
  async run(invocation, terminal) {
    const graceMs = parsePeriodOption(invocation, "grace", 0) ?? ROTATION_GRACE_MS;
    if (typeof graceMs === "string") return fail(terminal, EXIT_USAGE, graceMs);
    return withKeys(invocation, terminal, async (keys, reached, context) => {
      const [id = ""] = invocation.args;
      const old = pickKey(keys.records(), id, context.nowMs);
      const named = old.ok ? [["environments", old.key.environment] as const] : [];
      const broken = failIfBroken(reached, terminal, [["keyPrefix"], ...named]);
      if (broken !== undefined) return broken;
      const options = { ...context, graceMs };
      return withEdit(keys, terminal, {
        edit: (records) => rotateKey(records, id, options),
        say: ({ issued, previous, records }) => {
          const [report] = keyReports([previous], records);
          const until = formatInstant(report?.expires ?? 0);
          const ifLost = `${unshownText([issued])}\nKey ${previous.id} works until ${until}: \`keys set ${previous.id} --expires\` changes that`;
          if (invocation.flag("json")) {
            return printJson(terminal, { ...issuedReport(issued), previous: report }, ifLost);
          }
          terminal.out(issuedText(issued, reached.config), ifLost);
          terminal.out(`The old key ${previous.id} works until ${until}\n`);
          return EXIT_OK;
        },
      });
    });
  },
};

export const keysRevoke: Verb = {
  name: "keys revoke",
  usage: "ID|- [--admin URL] [--config FILE] [--json]",
  summary:
    "end a key at once and for ever; of an account every key that works; - reads it from stdin",
  example: "keys revoke k_4fPqX1mZ0aBc",
  options: GATEWAY_OPTIONS,
  args: ["ID"],
  run: async (invocation, terminal) => {
    const [id = ""] = invocation.args;
    const key = id === "-" ? await readKeyFromStdin(invocation, terminal) : undefined;
    if (id === "-" && key === undefined) return EXIT_USAGE;
    return withKeys(invocation, terminal, (keys) => {
      const nowMs = terminal.now();
      const revoked = withEdit(keys, terminal, {
        edit: (records) =>
          key === undefined ? revokeKeys(records, id, nowMs) : revokeByKey(records, key, nowMs),
        say: ({ revoked, one, records }) => {
          const reports = keyReports(revoked, records);
          if (invocation.flag("json")) return printJson(terminal, one ? reports[0] : reports);
          terminal.out(reports.map((report) => `Key ${report.id} is revoked\n`).join(""));
          return EXIT_OK;
        },
      });
      return revoked.catch(tellWorksStill);
    });
  },
};

/** A ban is not kept in the key file, so it is of use while that cannot be written. */
function tellWorksStill(cause: unknown): never {
  const { message } = cause as Error;
  if (!message.endsWith("nothing was changed")) throw cause;
  const meanwhile = "The key still works: `bans add ID --for 1d` refuses its account meanwhile";
  throw new Error(`${message}\n${meanwhile}`, { cause });
}

type RevokeResult = EditResult<{ readonly revoked: readonly KeyRecord[]; readonly one: boolean }>;

function revokeByKey(records: Records, key: string, nowMs: number): RevokeResult {
  const digest = digestKey(key);
  const id = records.keys.find((record) => record.digest === digest)?.id;
  if (id !== undefined) return revokeKeys(records, id, nowMs);
  return { ok: false, reason: "unknown", message: "This key is not known here" };
}
