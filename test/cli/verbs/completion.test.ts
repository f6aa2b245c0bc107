import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { appendFile, writeFile } from "node:fs/promises";
import { promisify } from "node:util";
import { describe, it } from "vitest";
import { parseArguments } from "../../../src/cli/framework/parse.ts";
import type { Verb } from "../../../src/cli/framework/verb.ts";
import { completionOf } from "../../../src/cli/verbs/completion.ts";
import { jsonOf, openFolder, runVerb, writeConfig } from "../kit.ts";

const verb = (name: string, ...options: string[]): Verb => ({
  ...{ name, usage: "", summary: "", args: [], run: async () => 0 },
  options: options.map((option) => ({ name: option, value: "X", summary: "" })),
});
const VERBS = [
  verb("keys create", "plan", "env", "name"),
  {
    ...verb("keys list"),
    options: [{ name: "state", value: "X", choices: ["works", "revoked"], summary: "" }],
  },
  verb("start", "config"),
];

/** The script of a command line that has three verbs. */
async function script(shell: string): Promise<string> {
  const completion = completionOf(async () => VERBS);
  const parsed = parseArguments(completion, [shell]);
  assert.ok(parsed.ok);
  let text = "";
  const out = (more: string) => {
    text += more;
  };
  assert.equal(await completion.run(parsed.invocation, { out } as never, "1.2.3"), 0);
  return text;
}

const WORDS = `_tollgate_words() {
  local words="" options=""
  if [ "$1" -le 1 ]; then echo "keys start completion help --help --version"; return; fi
  # "help keys" is followed by the words that follow "keys".
  if [ "$1" -eq 3 ] && [ "$3" = "help" ]; then set -- 2 "" "\${2#help }"; fi
  case "$2" in
    "keys create"|"keys create "*) options="--plan --env --name --help" ;;
    "keys list"|"keys list "*) options="--state --help" ;;
    "start"|"start "*) options="--config --help" ;;
  esac
  if [ "$1" -eq 2 ]; then
    case "$3" in
    keys) words="create list" ;;
    completion) words="bash zsh fish" ;;
    help) words="keys start completion" ;;
    esac
  fi
  echo "$words $options"
}
# The names that the configuration has for the value of the option $1; nothing for all other words.
# The words before it follow, as they were typed: bash makes three words of --config=FILE.
_tollgate_names() {
  local kind="" file="" word="" before=""
  case "$1" in
    --plan|--on) kind=plan ;;
    --env) kind=env ;;
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

describe("the script that completes the words of a command line", () => {
  it("is that of a shell alone, and of no member of objects", async () => {
    const { status, out, err } = await runVerb(["completion", "constructor"]);
    const told = 'Expected bash, zsh, fish: found "constructor"\n';
    assert.deepEqual([status, out, err], [64, "", told]);
  });

  it("of bash falls back on the names of files, and asks the configuration for those of options", async () => {
    const text = await script("bash");
    assert.ok(text.startsWith(`${WORDS}_tollgate() {\n`), text);
    assert.ok(text.endsWith("\ncomplete -o default -F _tollgate tollgate\n"), text);
    assert.match(
      text,
      /^ {4}--plan\|--on\|--env\)\n {6}COMPREPLY=\(\$\(compgen -W "\$\(_tollgate_names /m,
    );
  });

  it("of zsh counts its words from one, and offers files beside them", async () => {
    assert.equal(
      await script("zsh"),
      `#compdef tollgate
${WORDS}_tollgate() {
  local -a before=("\${(@)words[2,CURRENT-1]}")
  local previous="\${words[CURRENT-1]}"
  case "\${words[CURRENT]}" in
    --*=*)
      previous="\${words[CURRENT]%%=*}"
      compset -P "*=" ;;
  esac
  case "$previous" in
    --plan|--on|--env)
      compadd -- \${=$(_tollgate_names "$previous" "\${before[@]}")}
      return ;;
    --config|--log|--data)
      _files
      return ;;
    --state)
      compadd -- works revoked
      return ;;
    --name)
      return ;;
  esac
  compadd -- \${=$(_tollgate_words "$((CURRENT - 1))" "\${before[*]}" "\${words[2]}")}
  _files
}
compdef _tollgate tollgate
`,
    );
  });

  it("of fish offers no file in place of a verb", async () => {
    const seen = "__fish_seen_subcommand_from";
    const line = (rest: string) => `complete -c tollgate -n ${rest}\n`;
    const names = (kind: string) => `"(__tollgate_names ${kind})"`;
    const not = (...words: string[]) => words.map((word) => `not ${seen} ${word}`).join("; and ");
    const create = `"${seen} keys; and ${seen} create"`;
    const text = await script("fish");
    const end = "2>/dev/null\nend\n";
    const from = text.indexOf(end) + end.length;
    assert.match(text.slice(0, from), /^function __tollgate_names\n.* --config=\$file\[-1\] 2>/s);
    assert.equal(
      text.slice(from),
      [
        line('__fish_use_subcommand -f -a "keys start completion help"'),
        line("__fish_use_subcommand -l help"),
        line("__fish_use_subcommand -l version"),
        line(`"${seen} keys; and ${not("create", "list")}" -f -a "create list"`),
        line(`"${seen} completion; and ${not("bash", "zsh", "fish")}" -f -a "bash zsh fish"`),
        line(
          `"${seen} help; and ${not("keys", "start", "completion")}" -f -a "keys start completion"`,
        ),
        line(`${create} -l plan -xa ${names("plan")}`),
        line(`${create} -l env -xa ${names("env")}`),
        line(`${create} -l name -x`),
        line(`${create} -l help`),
        line(`"${seen} keys; and ${seen} list" -l state -xa "works revoked"`),
        line(`"${seen} keys; and ${seen} list" -l help`),
        line(`"${seen} start" -l config -rF`),
        line(`"${seen} start" -l help`),
      ].join(""),
    );
  });
});

/** The words that bash offers in place of the last of these. */
async function offered(folder: string, ...typed: readonly string[]): Promise<string[]> {
  await writeFile(`${folder}/script`, await script("bash"));
  // The configuration of the machine that has the command, and that of a file.
  const names = `tollgate() { if [ -e "\${5#--config=}" ]; then echo silver; else echo gold; fi; }`;
  const command = 'compopt() { [ "$1" = -o ] || echo only these; }';
  const run = `${names}; ${command}; . ./script; COMP_WORDS=(tollgate "$@") COMP_CWORD=$#; _tollgate; printf '%s\\n' "\${COMPREPLY[@]}"`;
  const { stdout } = await promisify(execFile)("bash", ["-c", run, "bash", ...typed], {
    cwd: folder,
  });
  return stdout.trim().split("\n").sort();
}

describe("where the value of an option must follow, bash offers", () => {
  const CASES: readonly (readonly [string, readonly string[], readonly string[]])[] = [
    ["files", ["start", "--config", ""], ["a b.yaml", "a.yaml", "script"]],
    [
      "files also behind the sign of equality",
      ["start", "--config", "="],
      ["a b.yaml", "a.yaml", "script"],
    ],
    ["the files that begin so", ["start", "--config", "=", "a."], ["a.yaml"]],
    ["names of the configuration", ["keys", "create", "--plan", "=", "go"], ["gold"]],
    [
      "those of the file behind the sign of equality",
      ["keys", "create", "--config", "=", "a.yaml", "--plan", ""],
      ["silver"],
    ],
    [
      "those of a file whose name is quoted",
      ["keys", "create", "--config", '"./a.yaml"', "--plan", ""],
      ["silver"],
    ],
    [
      "those of a file whose name has a blank",
      ["keys", "create", "--config", "a\\ b.yaml", "--plan", ""],
      ["silver"],
    ],
    ["the verbs behind help", ["help", "st"], ["start"]],
    ["the second words of verbs behind help", ["help", "keys", ""], ["create", "list"]],
    ["the words that the option takes", ["keys", "list", "--state", "w"], ["works"]],
    ["the options that stand alone", ["--v"], ["--version"]],
    ["nothing if it can be anything", ["keys", "create", "--name", ""], ["only these"]],
    ["an option behind the value", ["start", "--config", "a.yaml", "--h"], ["--help"]],
  ];
  for (const [what, typed, wanted] of CASES) {
    it(what, async () => {
      await using folder = await openFolder();
      for (const name of ["a.yaml", "a b.yaml"]) await writeFile(`${folder.path}/${name}`, "");
      assert.deepEqual(await offered(folder.path, ...typed), wanted);
    });
  }
});

it("the words that an option takes are in the script of the command itself", async () => {
  const { out } = await runVerb(["completion", "fish"]);
  assert.match(out, / -l state -xa "works expired revoked"$/m);
  assert.match(out, / -l break -xa "limit retry-after forward late cost history settle"$/m);
});

describe("the names that a script asks for", () => {
  it("are one a line or one value of JSON, also of a file with mistakes, and none of no file", async () => {
    await using folder = await openFolder();
    const file = await writeConfig(folder);
    const names = (...args: string[]) => runVerb(["completion", "bash", "--names", ...args]);
    for (const mistake of ["", "bogus: 1\n"]) {
      await appendFile(file, mistake);
      const plans = await names("plan", "--config", file);
      assert.deepEqual([plans.status, plans.out], [0, "free\npro\nbusiness\nenterprise\n"]);
      const environments = await names("env", "--config", file, "--json");
      assert.deepEqual(jsonOf(environments), ["production", "staging"]);
    }
    const none = await names("plan", "--config", `${file}.gone`);
    assert.deepEqual([none.status, none.out], [0, ""]);
  });

  it("are those of plans or environments, or wrong usage", async () => {
    const { status, out, err } = await runVerb(["completion", "bash", "--names", "keys"]);
    const message = 'Expected --names plan or --names env: found "keys"\n';
    assert.deepEqual([status, out, err], [64, "", message]);
  });
});
