import { readFile } from "node:fs/promises";
import { whyUnread } from "../../config/file/text-file.ts";
import { DONE, FAILED, fail } from "../../server/process/process-door.ts";
import { editKeys, ringOf } from "../../stores/interface/edit-keys.ts";
import { counted } from "../frame/table.ts";
import { printJson, type Terminal } from "../frame/terminal.ts";
import { CONFIG, JSON_FLAG, type Verb } from "../frame/verb.ts";
import { failRefused, listStatus, withKeys } from "../stores/with-keys.ts";

const keysExport: Verb = {
  name: "keys export",
  usage: "[--config FILE] [--json]",
  summary: "print all accounts and keys as lines of JSON: digests, never keys",
  example: "keys export > records.jsonl",
  options: [CONFIG, JSON_FLAG],
  args: [],
  run: (call, terminal) =>
    withKeys(call, terminal, async (keys) => {
      const { exportLines } = await import("../../stores/keys/transfer.ts");
      const lines = [...exportLines(keys.records())];
      if (call.flag("json")) terminal.out(`[${lines.join(",")}]\n`);
      else terminal.out(lines.map((line) => `${line}\n`).join(""));
      return listStatus(keys);
    }),
};

const keysImport: Verb = {
  name: "keys import",
  usage: "FILE|- [--dry-run] [--plain] [--config FILE] [--json]",
  summary: "take in the lines of `keys export`, all or none; doing it again changes nothing",
  example: "keys import records.jsonl --dry-run",
  options: [
    { name: "dry-run", summary: "say what would be done, and every mistake" },
    {
      name: "plain",
      summary: 'lines {"key","account","plan","environment","name"?} from elsewhere',
    },
    CONFIG,
    JSON_FLAG,
  ],
  args: ["FILE"],
  run: async (call, terminal) => {
    const [file = ""] = call.args;
    const text = await readText(file, terminal);
    if (text === undefined) return FAILED;
    return withKeys(call, terminal, async (keys, config) => {
      const { importRecords, readLines } = await import("../../stores/keys/transfer.ts");
      const options = {
        plain: call.flag("plain"),
        foreignKeys: config.foreignKeys,
        ring: ringOf(config, terminal.now()),
      };
      const lines = await readLines(file, text, terminal.now());
      const dry = call.flag("dry-run");
      const edited = dry
        ? importRecords(keys.records(), lines, options)
        : await editKeys(keys, (records) => importRecords(records, lines, options));
      if (!edited.ok) return failRefused(terminal, edited);
      const { keys: fresh, accounts, known, ended } = edited;
      if (call.flag("json")) return printJson(terminal, { keys: fresh, accounts, known, ended });
      const would = dry ? "would be " : "";
      const taken = `${counted(fresh, "key")} and ${counted(accounts, "account")} ${would}new`;
      const told = `${taken}, ${counted(known, "key")} known already, ${ended} of them ${would}ended sooner`;
      terminal.out(`${told}\n`);
      return DONE;
    });
  },
};

async function readText(file: string, terminal: Terminal): Promise<string | undefined> {
  if (file === "-") return terminal.readIn();
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    fail(terminal, FAILED, `Cannot read ${file}: ${whyUnread(cause)}`);
    return undefined;
  }
}

export const keysTransfer: readonly Verb[] = [keysExport, keysImport];
