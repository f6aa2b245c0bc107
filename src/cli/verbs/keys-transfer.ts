import { readFile } from "node:fs/promises";
import { isObject } from "../../base/is-object.ts";
import { formatCount } from "../../base/messages.ts";
import { readErrorMessage } from "../../config/file/text-file.ts";
import type { FilePart } from "../../config/load/reachable.ts";
import type { Records } from "../../core/keys/records.ts";
import { EXIT_FAILURE, EXIT_OK, fail } from "../../server/process/process-context.ts";
import type { ImportLine } from "../../stores/keys/file/import-lines.ts";
import { judgeKeyEdit } from "../../stores/keys/key-store.ts";
import { failIfBroken } from "../access/reach.ts";
import { editRecords, failWithRefusal, listExitStatus, withKeys } from "../access/with-keys.ts";
import { printJson, showWait, type Terminal } from "../framework/terminal.ts";
import { GATEWAY_OPTIONS, type Verb } from "../framework/verb.ts";

const keysExport: Verb = {
  name: "keys export",
  usage: "[--admin URL] [--config FILE] [--json]",
  summary: "print all accounts and keys as lines of JSON: digests, never keys",
  example: "keys export > records.jsonl",
  options: GATEWAY_OPTIONS,
  args: [],
  run: (invocation, terminal) =>
    withKeys(invocation, terminal, async (keys) => {
      const exporting = await import("../../stores/keys/file/export-records.ts");
      const records = keys.records();
      if (invocation.flag("json")) {
        terminal.out(`[${[...exporting.exportObjects(records)].join(",")}]\n`);
      } else {
        terminal.out([...exporting.exportLines(records)].map((line) => `${line}\n`).join(""));
      }
      return listExitStatus(keys);
    }),
};

const keysImport: Verb = {
  name: "keys import",
  usage: "FILE|- [--dry-run] [--plain] [--admin URL] [--config FILE] [--json]",
  summary: "take in what `keys export` printed, all or none; doing it again changes nothing",
  example: "keys import records.jsonl --dry-run",
  options: [
    { name: "dry-run", summary: "say what would be done, and every mistake" },
    {
      name: "plain",
      summary: 'lines {"key","account","plan","environment","name"?} from elsewhere',
    },
    ...GATEWAY_OPTIONS,
  ],
  args: ["FILE"],
  run: async (invocation, terminal) => {
    const [file = ""] = invocation.args;
    const content = await readContent(file, terminal);
    if (content === undefined) return EXIT_FAILURE;
    return withKeys(invocation, terminal, async (keys, reached, context) => {
      const plain = invocation.flag("plain");
      const { readLines } = await import("../../stores/keys/file/import-lines.ts");
      const { prepareImport } = await import("../../stores/keys/file/import-records.ts");
      const options = {
        plain,
        foreignKeys: reached.config.foreignKeys,
        context,
      };
      const dry = invocation.flag("dry-run");
      const takeIn = async () => {
        const lines = await readLines(file, content, terminal.now());
        const parts = partsFor(lines, keys.records(), plain);
        const broken = failIfBroken(reached, terminal, parts);
        if (broken !== undefined) return broken;
        const edit = await prepareImport(keys.records(), lines, options);
        return dry ? judgeKeyEdit(keys, edit) : editRecords(keys, terminal, edit);
      };
      const edited = await showWait(terminal, "Importing", takeIn());
      if (typeof edited === "number") return edited;
      if (!edited.ok) return failWithRefusal(terminal, edited);
      const { keys: fresh, accounts, known, ended, differing } = edited;
      if (differing.length > 0) terminal.err(`${stayText(differing)}\n`);
      if (invocation.flag("json")) {
        const counts = { keys: fresh, accounts, known, ended, differing: differing.length };
        return printJson(terminal, counts);
      }
      const would = dry ? "would be " : "";
      const taken = `${formatCount(fresh, "key")} and ${formatCount(accounts, "account")} ${would}new`;
      const told = `${taken}, ${formatCount(known, "key")} known already, ${ended} of them ${would}ended sooner`;
      terminal.out(`${told}\n`);
      return EXIT_OK;
    });
  },
};

/**
 * The parts of the file that lines are judged by. Accounts that are here already are not judged again,
 * and neither are records of a whole key file.
 */
function partsFor(
  lines: readonly ImportLine[],
  { accounts }: Records,
  plain: boolean,
): readonly FilePart[] {
  const known = new Set(accounts.map(({ id }) => id));
  const [environments, plans] = [new Set<string>(), new Set<string>()];
  for (const { value, isKept = false } of lines) {
    if (isKept || !isObject(value) || value.record === "key") continue;
    const { environment, plan } = value;
    const isKnown = known.has(String(plain ? value.account : value.id));
    if (typeof environment === "string" && (plain || !isKnown)) environments.add(environment);
    if (typeof plan === "string" && !isKnown) plans.add(plan);
  }
  return [
    ...(plain ? ([["keyPrefix"], ["foreignKeys"]] as const) : []),
    ...[...environments].map((name) => ["environments", name] as const),
    ...[...plans].map((name) => ["plans", name] as const),
  ];
}

const SHOWN_MAX = 20;

function stayText(differing: readonly string[]): string {
  const known = formatCount(differing.length, "known record");
  const stay =
    differing.length === 1 ? "differs, and stays as it is" : "differ, and stay as they are";
  const names = differing.slice(0, SHOWN_MAX).join("; ");
  const more = differing.length > SHOWN_MAX ? `; and ${differing.length - SHOWN_MAX} more` : "";
  return `${known} ${stay} here: ${names}${more}. \`accounts set\`, \`suspend\`, \`resume\` and \`keys set\` change that`;
}

async function readContent(file: string, terminal: Terminal): Promise<Buffer | undefined> {
  if (file === "-") return terminal.readIn();
  try {
    return await readFile(file);
  } catch (cause) {
    fail(terminal, EXIT_FAILURE, `Cannot read ${file}: ${readErrorMessage(cause)}`);
    return undefined;
  }
}

export const keysTransfer: readonly Verb[] = [keysExport, keysImport];
