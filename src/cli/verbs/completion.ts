import { quoteValue } from "../../base/messages.ts";
import { EXIT_OK, EXIT_USAGE, fail } from "../../server/process/process-context.ts";
import { configFileOf } from "../framework/config-file.ts";
import { didYouMean } from "../framework/parse.ts";
import { printJson, type Terminal } from "../framework/terminal.ts";
import { CONFIG, type Invocation, JSON_FLAG, type Verb } from "../framework/verb.ts";

type Words = {
  /** The first words of all verbs. */
  readonly first: readonly string[];
  /** By first word, the words that may follow. */
  readonly second: ReadonlyMap<string, readonly string[]>;
  /** By full verb, its options with their dashes. */
  readonly options: ReadonlyMap<string, readonly string[]>;
  /** The words that an option takes, by the option with its dashes. */
  readonly choices: ReadonlyMap<string, readonly string[]>;
  /** The options that a value must follow which no shell can know, with their dashes. */
  readonly untold: ReadonlySet<string>;
};

const SHELLS: Readonly<Record<string, (words: Words) => string>> = { bash, zsh, fish };

/** `verbs` are all verbs of the command line, including this one. */
export function completionOf(verbs: () => Promise<readonly Verb[]>): Verb {
  return {
    name: "completion",
    usage: "bash|zsh|fish [--names plan|env] [--config FILE] [--json]",
    summary: "print what completes verbs, options, plans, environments and files in a shell",
    options: [
      {
        name: "names",
        value: "plan|env",
        summary:
          "print the plans or environments of the configuration, as the scripts ask for them",
      },
      CONFIG,
      JSON_FLAG,
    ],
    args: ["SHELL"],
    example: "completion bash > /etc/bash_completion.d/tollgate",
    async run(invocation, terminal) {
      const [shell = ""] = invocation.args;
      const script = Object.hasOwn(SHELLS, shell) ? SHELLS[shell] : undefined;
      if (script === undefined) {
        const known = Object.keys(SHELLS);
        const message = `Expected ${known.join(", ")}: found ${quoteValue(shell)}${didYouMean(shell, known)}`;
        return fail(terminal, EXIT_USAGE, message);
      }
      const wanted = invocation.text("names");
      if (wanted !== undefined) return printNames(wanted, invocation, terminal);
      const text = script(wordsOf(await verbs()));
      if (invocation.flag("json")) return printJson(terminal, { shell, script: text });
      terminal.out(text);
      return EXIT_OK;
    },
  };
}

/** Prints names from the configuration, one a line, as far as it can be read. */
async function printNames(
  wanted: string,
  invocation: Invocation,
  terminal: Terminal,
): Promise<number> {
  if (wanted !== "plan" && wanted !== "env") {
    const message = `Expected --names plan or --names env: found ${quoteValue(wanted)}`;
    return fail(terminal, EXIT_USAGE, message);
  }
  const { loadConfig } = await import("../../config/load/load.ts");
  const { loadReachable } = await import("../../config/load/reachable.ts");
  const loaded = await loadConfig(configFileOf(invocation), terminal.env);
  const sound = loaded.ok ? undefined : await loadReachable(configFileOf(invocation), terminal.env);
  const config = loaded.ok ? loaded.config : sound?.ok ? sound.reach.config : undefined;
  const plans = [...(config?.plans.keys() ?? [])];
  const names = wanted === "plan" ? plans : (config?.environments ?? []).map(({ name }) => name);
  if (invocation.flag("json")) return printJson(terminal, names);
  terminal.out(names.map((name) => `${name}\n`).join(""));
  return EXIT_OK;
}

/** Options whose value is a plan, an environment or a file, for all shells. */
const PLANS = ["--plan", "--on"];
const ENVIRONMENTS = ["--env"];
const FILES = ["--config", "--log", "--data"];

/** The options that stand in place of a verb. */
const ALONE = ["--help", "--version"];

function wordsOf(verbs: readonly Verb[]): Words {
  const second = new Map<string, string[]>();
  for (const { name } of verbs) {
    const [first = "", follows] = name.split(" ");
    const known = second.get(first) ?? [];
    second.set(first, follows === undefined ? known : [...known, follows]);
  }
  second.set("completion", Object.keys(SHELLS));
  second.set("help", [...second.keys()]);
  const options = new Map(
    verbs.map((verb) => [
      verb.name,
      [...verb.options.map(({ name }) => `--${name}`), "--help"] as const,
    ]),
  );
  const valued = verbs.flatMap((verb) => verb.options.filter(({ value }) => value !== undefined));
  const untold = new Set(valued.map(({ name }) => `--${name}`));
  const choices = new Map(
    valued.flatMap(({ name, choices: words }) => (words ? [[`--${name}`, words] as const] : [])),
  );
  for (const told of [...PLANS, ...ENVIRONMENTS, ...FILES, ...choices.keys()]) untold.delete(told);
  return { first: [...second.keys()], second, options, choices, untold };
}

/** A function in syntax that bash and zsh share: it lists the possible words at a position. */
function candidates({ first, second, options }: Words): string {
  const seconds = [...second]
    .filter(([, words]) => words.length > 0)
    .map(([word, words]) => `    ${word}) words="${words.join(" ")}" ;;\n`);
  const known = [...options].map(([verb, words]) => {
    return `    "${verb}"|"${verb} "*) options="${words.join(" ")}" ;;\n`;
  });
  return `_tollgate_words() {
  local words="" options=""
  if [ "$1" -le 1 ]; then echo "${[...first, ...ALONE].join(" ")}"; return; fi
  # "help keys" is followed by the words that follow "keys".
  if [ "$1" -eq 3 ] && [ "$3" = "help" ]; then set -- 2 "" "\${2#help }"; fi
  case "$2" in
${known.join("")}  esac
  if [ "$1" -eq 2 ]; then
    case "$3" in
${seconds.join("")}    esac
  fi
  echo "$words $options"
}
# The names that the configuration has for the value of the option $1; nothing for all other words.
# The words before it follow, as they were typed: bash makes three words of --config=FILE.
_tollgate_names() {
  local kind="" file="" word="" before=""
  case "$1" in
    ${PLANS.join("|")}) kind=plan ;;
    ${ENVIRONMENTS.join("|")}) kind=env ;;
    *) return ;;
  esac
  shift
  for word in "$@"; do
    case "$word" in
      =) continue ;;
      --config=*) file="\${word#*=}" ;;
      *) if [ "$before" = "--config" ]; then file="$word"; fi ;;
    esac
    before="$word"
  done
  file=\${file//[\\\\\\"\\']/}
  tollgate completion bash --names "$kind" \${file:+"--config=$file"} 2>/dev/null
}
`;
}

/** The cases of the options that take one of some words, in syntax that bash and zsh share. */
function casesOf({ choices }: Words, offer: (list: string) => string): string {
  return [...choices]
    .map(([option, words]) => `    ${option})\n      ${offer(words.join(" "))}\n      return ;;\n`)
    .join("");
}

function bash(words: Words): string {
  return `${candidates(words)}_tollgate() {
  local before=("\${COMP_WORDS[@]:1:COMP_CWORD-1}")
  local current="\${COMP_WORDS[COMP_CWORD]}"
  local previous="\${COMP_WORDS[COMP_CWORD-1]}"
  # bash makes three words of --option=value.
  if [ "$current" = "=" ]; then current=""
  elif [ "$previous" = "=" ]; then previous="\${COMP_WORDS[COMP_CWORD-2]}"; fi
  case "$previous" in
    ${[...PLANS, ...ENVIRONMENTS].join("|")})
      COMPREPLY=($(compgen -W "$(_tollgate_names "$previous" "\${before[@]}")" -- "$current"))
      return ;;
    ${FILES.join("|")})
      local IFS=$'\n'
      compopt -o filenames
      COMPREPLY=($(compgen -f -- "$current"))
      return ;;
${casesOf(words, (list) => `COMPREPLY=($(compgen -W "${list}" -- "$current"))`)}    ${[...words.untold].join("|")})
      compopt +o default
      return ;;
  esac
  COMPREPLY=($(compgen -W "$(_tollgate_words "$COMP_CWORD" "\${before[*]}" "\${COMP_WORDS[1]}")" -- "$current"))
}
complete -o default -F _tollgate tollgate
`;
}

function zsh(words: Words): string {
  return `#compdef tollgate
${candidates(words)}_tollgate() {
  local -a before=("\${(@)words[2,CURRENT-1]}")
  local previous="\${words[CURRENT-1]}"
  case "\${words[CURRENT]}" in
    --*=*)
      previous="\${words[CURRENT]%%=*}"
      compset -P "*=" ;;
  esac
  case "$previous" in
    ${[...PLANS, ...ENVIRONMENTS].join("|")})
      compadd -- \${=$(_tollgate_names "$previous" "\${before[@]}")}
      return ;;
    ${FILES.join("|")})
      _files
      return ;;
${casesOf(words, (list) => `compadd -- ${list}`)}    ${[...words.untold].join("|")})
      return ;;
  esac
  compadd -- \${=$(_tollgate_words "$((CURRENT - 1))" "\${before[*]}" "\${words[2]}")}
  _files
}
compdef _tollgate tollgate
`;
}

function fish({ first, second, options, choices, untold }: Words): string {
  const lines = [
    ...FISH_NAMES,
    `complete -c tollgate -n __fish_use_subcommand -f -a "${first.join(" ")}"`,
    ...ALONE.map((name) => `complete -c tollgate -n __fish_use_subcommand -l ${name.slice(2)}`),
  ];
  for (const [word, follows] of second) {
    if (follows.length === 0) continue;
    const unless = follows.map((one) => `not __fish_seen_subcommand_from ${one}`).join("; and ");
    lines.push(
      `complete -c tollgate -n "__fish_seen_subcommand_from ${word}; and ${unless}" -f -a "${follows.join(" ")}"`,
    );
  }
  for (const [verb, names] of options) {
    const seen = verb.split(" ").map((word) => `__fish_seen_subcommand_from ${word}`);
    for (const name of names) {
      const value = untold.has(name) ? " -x" : fishValue(name, choices.get(name));
      lines.push(`complete -c tollgate -n "${seen.join("; and ")}" -l ${name.slice(2)}${value}`);
    }
  }
  return `${lines.join("\n")}\n`;
}

/** The completion of the value of an option in fish; "" if the option takes none of these. */
function fishValue(option: string, choices: readonly string[] | undefined): string {
  if (choices !== undefined) return ` -xa "${choices.join(" ")}"`;
  if (FILES.includes(option)) return " -rF";
  const kind = PLANS.includes(option) ? "plan" : ENVIRONMENTS.includes(option) ? "env" : undefined;
  return kind === undefined ? "" : ` -xa "(__tollgate_names ${kind})"`;
}

/** The names of the configuration that the words before the cursor have. */
const FISH_NAMES = [
  "function __tollgate_names",
  "  set -l words (commandline -opc)",
  "  set -l file (string replace -rf -- '^--config=' '' $words)",
  "  if set -l at (contains -i -- --config $words)",
  "    set file $words[(math $at + 1)]",
  "  end",
  "  tollgate completion fish --names $argv[1] --config=$file[-1] 2>/dev/null",
  "end",
];
