import type { Option, Verb } from "./frame/verb.ts";

export function generalHelp(verbs: readonly Verb[]): string {
  return `Tollgate, an API gateway: bearer keys, exact quotas and bans.

${groupHelp(verbs)}
  help [VERB]     how to use a verb
  --version       the version

Exit status: 0 done, 1 failed or unknown ID, 64 wrong usage, 78 wrong configuration.
`;
}

export function groupHelp(verbs: readonly Verb[]): string {
  const width = Math.max(...verbs.map(({ name }) => name.length), 14);
  const lines = verbs.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}\n`);
  return `Usage: tollgate VERB …\n\n${lines.join("")}`;
}

export function verbHelp({ name, usage, summary, options }: Verb): string {
  const spelled = options.map((option) => [spell(option), option.summary] as const);
  const width = Math.max(...spelled.map(([left]) => left.length), 0);
  const lines = spelled.map(([left, right]) => `  ${left.padEnd(width)}  ${right}\n`);
  const list = lines.length === 0 ? "" : `\n${lines.join("")}`;
  return `${`Usage: tollgate ${name} ${usage}`.trimEnd()}\n\n${summary}\n${list}`;
}

function spell({ name, value, repeats = false }: Option): string {
  return `--${name}${value === undefined ? "" : ` ${value}`}${repeats ? " …" : ""}`;
}
