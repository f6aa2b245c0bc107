import { containsKey } from "../core/keys/key.ts";
import { EXIT_FAILURE, EXIT_OK, EXIT_USAGE, fail } from "../server/process/process-context.ts";
import { KEY_IN_ARGUMENT } from "./framework/config-file.ts";
import { generalHelp, groupHelp, verbHelp } from "./framework/help.ts";
import { didYouMean, parseArguments } from "./framework/parse.ts";
import { printJson, type Terminal } from "./framework/terminal.ts";
import { CONFIG_IGNORED, JSON_FLAG, type Verb } from "./framework/verb.ts";
import { accountsList } from "./verbs/accounts-list.ts";
import { accountsSet } from "./verbs/accounts-set.ts";
import { accountsState } from "./verbs/accounts-state.ts";
import { audit } from "./verbs/audit.ts";
import { bans } from "./verbs/bans.ts";
import { check, schema } from "./verbs/check.ts";
import { completionOf } from "./verbs/completion.ts";
import { demo } from "./verbs/demo.ts";
import { deprecations } from "./verbs/deprecations.ts";
import { explain } from "./verbs/explain.ts";
import { init } from "./verbs/init.ts";
import { keysCreate } from "./verbs/keys-create.ts";
import { keysFind, keysList, keysShow } from "./verbs/keys-list.ts";
import { keysRevoke, keysRotate } from "./verbs/keys-rotate.ts";
import { keysSet } from "./verbs/keys-set.ts";
import { keysTransfer } from "./verbs/keys-transfer.ts";
import { pets } from "./verbs/pets.ts";
import { plans } from "./verbs/plans.ts";
import { prove } from "./verbs/prove.ts";
import { start } from "./verbs/start.ts";
import { reload, status } from "./verbs/status-reload.ts";
import { usage } from "./verbs/usage.ts";

export const VERBS: readonly Verb[] = [
  init,
  start,
  pets,
  demo,
  check,
  schema,
  keysCreate,
  keysList,
  keysShow,
  keysFind,
  keysSet,
  ...keysTransfer,
  keysRotate,
  keysRevoke,
  ...accountsList,
  accountsSet,
  ...accountsState,
  ...bans,
  usage,
  ...plans,
  explain,
  audit,
  deprecations,
  prove,
  status,
  reload,
  completionOf(() => VERBS),
  {
    name: "version",
    usage: "[--json]",
    summary: "the version",
    options: [CONFIG_IGNORED, JSON_FLAG],
    args: [],
    example: "version --json",
    async run(call, terminal, version) {
      if (call.flag("json")) return printJson(terminal, { version });
      return say(terminal, `tollgate ${version}\n`);
    },
  },
];

/**
 * An internal verb: a gateway of several processes starts its workers with it, with a channel to
 * each.
 */
const WORKER = "worker";

/**
 * Runs the command line `argv` and returns the exit status
 * (docs/reference/commands.md#exit-statuses).
 */
export async function run(
  argv: readonly string[],
  terminal: Terminal,
  version: string,
): Promise<number> {
  const [first, ...rest] = argv;
  if (first === undefined) return fail(terminal, EXIT_USAGE, generalHelp(VERBS).trimEnd());
  if (first === WORKER && terminal.process.parent !== undefined) {
    return (await import("../server/workers/worker.ts")).runWorker(terminal);
  }
  if (argv.some((text) => containsKey(text))) return fail(terminal, EXIT_USAGE, KEY_IN_ARGUMENT);
  if (first === "--version") return await runVerb(["version", ...rest], terminal, version);
  if (first === "help" || first === "--help" || first === "-h") return help(rest, terminal);

  return await runVerb(argv, terminal, version);
}

async function runVerb(
  argv: readonly string[],
  terminal: Terminal,
  version: string,
): Promise<number> {
  const verb = findVerb(argv);
  if (verb === undefined) return unknownVerb(argv, terminal);
  const parsed = parseArguments(verb, argv.slice(verb.name.split(" ").length));
  if (!parsed.ok) return wrongUsage(terminal, parsed.message, verb.name);
  if (parsed.call.flag("help")) return say(terminal, verbHelp(verb));
  try {
    return await verb.run(parsed.call, terminal, version);
  } catch (error) {
    return fail(terminal, EXIT_FAILURE, error instanceof Error ? error.message : String(error));
  }
}

function help(names: readonly string[], terminal: Terminal): number {
  if (names.length === 0) return say(terminal, generalHelp(VERBS));
  const verb = findVerb(names);
  if (verb !== undefined) return say(terminal, verbHelp(verb));
  const group = groupOf(names[0]);
  return group.length > 0
    ? say(terminal, groupHelp(names[0] ?? "", group))
    : unknownVerb(names, terminal);
}

function findVerb(words: readonly string[]): Verb | undefined {
  return VERBS.find(({ name }) => name === words[0] || name === `${words[0]} ${words[1]}`);
}

/** The verbs of a group: "keys" and "bans" are the first word of several verbs. */
function groupOf(word: string | undefined): readonly Verb[] {
  return VERBS.filter(({ name }) => name.startsWith(`${word} `));
}

function unknownVerb([first = "", second]: readonly string[], terminal: Terminal): number {
  const group = groupOf(first);
  if (group.length === 0) {
    const names = [...new Set(VERBS.map(({ name }) => name.split(" ")[0] ?? "")), "help"];
    const meant = didYouMean(first, names) || `: expected ${names.join(", ")}`;
    return wrongUsage(terminal, `Unknown verb ${JSON.stringify(first)}${meant}`);
  }
  if (second === "--help" || second === "-h") return say(terminal, groupHelp(first, group));
  const names = group.map(({ name }) => name.slice(first.length + 1));
  const found = second === undefined ? "nothing" : JSON.stringify(second);
  const meant = didYouMean(second ?? "", names);
  return wrongUsage(
    terminal,
    `Expected ${names.join(", ")} after ${first}: found ${found}${meant}`,
    first,
  );
}

function wrongUsage(terminal: Terminal, message: string, name = ""): number {
  const see = `tollgate help ${name}`.trimEnd();
  return fail(terminal, EXIT_USAGE, `${message} (see: ${see})`);
}

function say(terminal: Terminal, text: string): number {
  terminal.out(text);
  return EXIT_OK;
}
