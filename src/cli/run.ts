import { errorCode, errorMessage, quoteValue } from "../base/messages.ts";
import { containsKey } from "../core/keys/key.ts";
import { EXIT_FAILURE, EXIT_OK, EXIT_USAGE, fail } from "../server/process/process-context.ts";
import { KEY_IN_ARGUMENT } from "./framework/config-file.ts";
import { generalHelp, groupHelp, verbHelp } from "./framework/help.ts";
import { didYouMean, parseArguments } from "./framework/parse.ts";
import { printJson, type Terminal } from "./framework/terminal.ts";
import type { Verb } from "./framework/verb.ts";
import { findVerb, loadVerbs, VERB_NAMES } from "./verb-table.ts";

/** The internal verb by which a gateway starts its workers, with a channel to each. */
const WORKER = "worker";
const JSON_WORD = "--json";
const HELP_WORDS: ReadonlySet<string> = new Set(["help", "--help", "-h"]);

/** Runs a command line; the exit status (docs/reference/commands.md#exit-statuses). */
export async function run(
  argv: readonly string[],
  terminal: Terminal,
  version: string,
): Promise<number> {
  const [first, ...rest] = argv;
  if (first === undefined) return fail(terminal, EXIT_USAGE, (await wholeHelp()).trimEnd());
  if (first === WORKER && terminal.process.parent !== undefined) {
    return (await import("../server/workers/worker.ts")).runWorker(terminal);
  }
  if (argv.some((text) => containsKey(text))) return fail(terminal, EXIT_USAGE, KEY_IN_ARGUMENT);
  if (first === "--version") return await runVerb(["version", ...rest], terminal, version);
  if (HELP_WORDS.has(first)) return help(rest, terminal);

  return await runVerb(argv, terminal, version);
}

async function runVerb(
  argv: readonly string[],
  terminal: Terminal,
  version: string,
): Promise<number> {
  const verb = await findVerb(argv);
  if (verb === undefined) return unknownVerb(argv, terminal);
  const parsed = parseArguments(verb, argv.slice(verb.name.split(" ").length));
  if (!parsed.ok) return wrongUsage(terminal, parsed.message, verb.name);
  if (parsed.invocation.flag("help")) return say(terminal, verbHelp(verb), argv);
  try {
    return await verb.run(parsed.invocation, terminal, version);
  } catch (error) {
    return fail(terminal, EXIT_FAILURE, errorMessage(error));
  }
}

async function help(words: readonly string[], terminal: Terminal): Promise<number> {
  const names = words.filter((word) => word !== JSON_WORD);
  if (names.length === 0 || HELP_WORDS.has(names[0] ?? "")) {
    return say(terminal, await wholeHelp(), words);
  }
  const verb = await findVerb(names);
  if (verb !== undefined) return say(terminal, verbHelp(verb), words);
  const [first = "", ...others] = names;
  const group = await groupOf(first);
  return group.length > 0 && others.length === 0
    ? say(terminal, groupHelp(first, group), words)
    : unknownVerb(names, terminal);
}

async function wholeHelp(): Promise<string> {
  return generalHelp(await loadVerbs());
}

/** The verbs of a group: "keys" and "bans" are the first word of several verbs. */
function groupOf(word: string | undefined): Promise<readonly Verb[]> {
  return loadVerbs(VERB_NAMES.filter((name) => name.startsWith(`${word} `)));
}

async function unknownVerb(words: readonly string[], terminal: Terminal): Promise<number> {
  const [first = "", second] = words;
  const group = await groupOf(first);
  if (first.startsWith("-")) {
    const follow = "options follow the verb, as in tollgate check --config FILE";
    return wrongUsage(terminal, `Unknown verb ${quoteValue(first)}: ${follow}`);
  }
  if (group.length === 0) {
    const names = [...new Set(VERB_NAMES.map((name) => name.split(" ")[0] ?? "")), "help"];
    const meant = didYouMean(first, names) || `: expected ${names.join(", ")}`;
    return wrongUsage(terminal, `Unknown verb ${quoteValue(first)}${meant}`);
  }
  if (second === "--help" || second === "-h") return say(terminal, groupHelp(first, group), words);
  const names = group.map(({ name }) => name.slice(first.length + 1));
  const found = second === undefined ? "nothing" : quoteValue(second);
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

/** Prints a help; as one JSON value if `words` have --json. */
function say(terminal: Terminal, text: string, words: readonly string[]): number {
  if (words.includes(JSON_WORD)) return printJson(terminal, { help: text });
  terminal.out(text);
  return EXIT_OK;
}

/**
 * The exit status if the output of a verb could not be written: a backup or a new key is lost. If
 * the reader ends early (`tollgate keys list | head -1`), that is no failure of Tollgate, unless
 * something is lost with the text. `lost` says what, one line each.
 */
export function statusUnwritten(
  failure: Error,
  {
    status,
    lost = [],
    err,
  }: Pick<Terminal, "err"> & { readonly status: number; readonly lost?: readonly string[] },
): number {
  const code = errorCode(failure);
  if (code === "EPIPE" && lost.length === 0) return status;
  const why = code === "ENOSPC" ? "the disk is full (ENOSPC)" : failure.message;
  err([`Cannot write to stdout: ${why}`, ...lost, ""].join("\n"));
  return status === EXIT_OK ? EXIT_FAILURE : status;
}
