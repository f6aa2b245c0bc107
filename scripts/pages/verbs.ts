import {
  ADMIN,
  CONFIG,
  JSON_FLAG,
  LOG,
  type Option,
  type Verb,
} from "../../src/cli/framework/verb.ts";
import { loadVerbs } from "../../src/cli/verb-table.ts";
import { madeFrom, table } from "./table.ts";

const VERBS = await loadVerbs();

/** Options that mean the same for every verb that takes them. */
const COMMON: readonly Option[] = [CONFIG, JSON_FLAG, ADMIN, LOG];

/** The text of docs/reference/verbs.md: every verb of the command line with all of its options. */
export function verbsPage(): string {
  return `# Verbs and options

${madeFrom("the verbs in src/cli/verbs")}

Every verb of the command line with every option. \`tollgate VERB --help\` prints the same. What the verbs promise,
print and exit with is on the page about [commands](commands.md).

- What stands in parentheses holds if the option is left out: \`--grace 24h\` of \`keys rotate\` is 24 hours unless you
  say otherwise.
- An option with \`…\` may be given several times.
- A value may follow a blank or an equals sign: \`--plan free\`, \`--plan=free\`.
- \`tollgate\` stands for \`npm run -s tollgate --\` in a checkout, and for \`npx tollgate\` where the package is
  installed in a folder.

## Options of most verbs

${optionTable(COMMON)}

${VERBS.map(section).join("\n")}`;
}

function section({ name, usage, summary, options, example }: Verb): string {
  const own = options.filter((option) => !COMMON.includes(option));
  const common = options.filter((option) => COMMON.includes(option));
  const parts = [
    `## ${name}`,
    `${capital(summary)}.`,
    `\`\`\`sh\ntollgate ${example ?? `${name} ${usage}`}\n\`\`\``,
    `Usage: \`${`tollgate ${name} ${usage}`.trimEnd()}\``,
    ...(own.length === 0 ? [] : [optionTable(own)]),
    ...(common.length === 0 ? [] : [`As everywhere: ${common.map(spell).join(", ")}.`]),
  ];
  return `${parts.join("\n\n")}\n`;
}

function optionTable(options: readonly Option[]): string {
  return table(
    ["option", "meaning"],
    options.map((option) => [spell(option), meaningOf(option)]),
  );
}

function spell({ name, value, repeats = false }: Option): string {
  return `\`--${name}${value === undefined ? "" : ` ${value}`}\`${repeats ? " …" : ""}`;
}

function meaningOf({ summary, required = false }: Option): string {
  return required ? `${summary}; required` : summary;
}

function capital(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}`;
}
