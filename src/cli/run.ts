import { DONE, FAILED, fail, WRONG_USAGE } from "../server/process/process-door.ts";
import type { Terminal } from "./frame/terminal.ts";
import { type Option, parseCall, type Verb } from "./frame/verb.ts";
import { bans } from "./verbs/bans.ts";
import { check, schema } from "./verbs/check.ts";
import { demo } from "./verbs/demo.ts";
import { keysCreate } from "./verbs/keys-create.ts";
import { keysList, keysShow } from "./verbs/keys-list.ts";
import { keysRevoke, keysRotate } from "./verbs/keys-rotate.ts";
import { pets } from "./verbs/pets.ts";
import { start } from "./verbs/start.ts";
import { usage } from "./verbs/usage.ts";

const VERBS: readonly Verb[] = [
  start,
  pets,
  demo,
  check,
  schema,
  keysCreate,
  keysList,
  keysShow,
  keysRotate,
  keysRevoke,
  ...bans,
  usage,
];

/** Not for people: a gateway of several processes starts them so, with a channel to each. */
const WORKER = "worker";

/**
 * The whole command line: what to do with `argv`, and the exit status
 * (docs/reference/commands.md#exit-statuses).
 */
export async function run(
  argv: readonly string[],
  terminal: Terminal,
  version: string,
): Promise<number> {
  const [first, ...rest] = argv;
  if (first === undefined) return fail(terminal, WRONG_USAGE, generalHelp(VERBS).trimEnd());
  if (first === WORKER && terminal.process.parent !== undefined) {
    return (await import("../server/workers/worker.ts")).runWorker(terminal);
  }
  if (first === "--version" || first === "version") return say(terminal, `tollgate ${version}\n`);
  if (first === "help" || first === "--help" || first === "-h") return help(rest, terminal);

  const verb = findVerb(argv);
  if (verb === undefined) return unknownVerb(argv, terminal);
  const parsed = parseCall(verb, argv.slice(verb.name.split(" ").length));
  if (!parsed.ok) return wrongUsage(terminal, parsed.message, verb.name);
  if (parsed.call.flag("help")) return say(terminal, verbHelp(verb));
  try {
    return await verb.run(parsed.call, terminal);
  } catch (error) {
    return fail(terminal, FAILED, error instanceof Error ? error.message : String(error));
  }
}

function help(names: readonly string[], terminal: Terminal): number {
  if (names.length === 0) return say(terminal, generalHelp(VERBS));
  const verb = findVerb(names);
  if (verb !== undefined) return say(terminal, verbHelp(verb));
  const group = groupOf(names[0]);
  return group.length > 0 ? say(terminal, groupHelp(group)) : unknownVerb(names, terminal);
}

function findVerb(words: readonly string[]): Verb | undefined {
  return VERBS.find(({ name }) => name === words[0] || name === `${words[0]} ${words[1]}`);
}

/** "keys" and "bans" stand before several verbs. */
function groupOf(word: string | undefined): readonly Verb[] {
  return VERBS.filter(({ name }) => name.startsWith(`${word} `));
}

function unknownVerb([first = "", second]: readonly string[], terminal: Terminal): number {
  const group = groupOf(first);
  if (group.length === 0) {
    const names = [...new Set(VERBS.map(({ name }) => name.split(" ")[0]))].join(", ");
    return wrongUsage(terminal, `Unknown verb ${JSON.stringify(first)}: expected ${names}`);
  }
  if (second === "--help" || second === "-h") return say(terminal, groupHelp(group));
  const names = group.map(({ name }) => name.slice(first.length + 1)).join(", ");
  const found = second === undefined ? "nothing" : JSON.stringify(second);
  return wrongUsage(terminal, `Expected ${names} after ${first}: found ${found}`, first);
}

function wrongUsage(terminal: Terminal, message: string, name = ""): number {
  const see = `tollgate help ${name}`.trimEnd();
  return fail(terminal, WRONG_USAGE, `${message} (see: ${see})`);
}

function say(terminal: Terminal, text: string): number {
  terminal.out(text);
  return DONE;
}

function generalHelp(verbs: readonly Verb[]): string {
  return `Tollgate, an API gateway: bearer keys, exact quotas and bans.

${groupHelp(verbs)}
  help [VERB]     how to use a verb
  --version       the version

Exit status: 0 done, 1 failed or unknown ID, 64 wrong usage, 78 wrong configuration.
`;
}

function groupHelp(verbs: readonly Verb[]): string {
  const width = Math.max(...verbs.map(({ name }) => name.length), 14);
  const lines = verbs.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}\n`);
  return `Usage: tollgate VERB …\n\n${lines.join("")}`;
}

function verbHelp({ name, usage, summary, options }: Verb): string {
  const spelled = options.map((option) => [spell(option), option.summary] as const);
  const width = Math.max(...spelled.map(([left]) => left.length), 0);
  const lines = spelled.map(([left, right]) => `  ${left.padEnd(width)}  ${right}\n`);
  const list = lines.length === 0 ? "" : `\n${lines.join("")}`;
  return `${`Usage: tollgate ${name} ${usage}`.trimEnd()}\n\n${summary}\n${list}`;
}

function spell({ name, value, repeats = false }: Option): string {
  return `--${name}${value === undefined ? "" : ` ${value}`}${repeats ? " …" : ""}`;
}
