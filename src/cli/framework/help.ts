import type { Option, Verb } from "./verb.ts";

/** The help of the whole command line. */
export function generalHelp(verbs: readonly Verb[]): string {
  return `Tollgate, an API gateway: bearer keys, exact quotas and bans.

Usage: tollgate VERB …

${listOf([...verbs.map(({ name, summary }) => ({ name, summary })), HELP])}
Exit status: 0 done, 1 failed or unknown ID, 64 wrong usage, 78 wrong configuration.

Example:
  tollgate start --config config/tollgate.yaml
`;
}

const HELP = { name: "help [VERB]", summary: "how to use a verb, with an example" };

/** The help of the verbs whose first word is `word`. */
export function groupHelp(word: string, verbs: readonly Verb[]): string {
  const example = verbs.find((verb) => verb.example !== undefined)?.example;
  return `Usage: tollgate ${word} VERB …\n\n${listOf(verbs)}${exampleText(example)}`;
}

function listOf(verbs: readonly Pick<Verb, "name" | "summary">[]): string {
  const width = Math.max(...verbs.map(({ name }) => name.length));
  return verbs.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}\n`).join("");
}

export function verbHelp({ name, usage, summary, options, example }: Verb): string {
  const spelled = options.map((option) => [spell(option), option.summary] as const);
  const width = Math.max(...spelled.map(([left]) => left.length), 0);
  const lines = spelled.map(([left, right]) => `  ${left.padEnd(width)}  ${right}\n`);
  const list = lines.length === 0 ? "" : `\n${lines.join("")}`;
  return `${`Usage: tollgate ${name} ${usage}`.trimEnd()}\n\n${summary}\n${list}${exampleText(example)}`;
}

function exampleText(example: string | undefined): string {
  return example === undefined ? "" : `\nExample:\n  tollgate ${example}\n`;
}

function spell({ name, value, repeats = false }: Option): string {
  return `--${name}${value === undefined ? "" : ` ${value}`}${repeats ? " …" : ""}`;
}
