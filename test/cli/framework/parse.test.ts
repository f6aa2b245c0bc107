import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "vitest";
import { didYouMean, parseArguments } from "../../../src/cli/framework/parse.ts";
import { each } from "../../support/each.ts";
import { openFolder, runVerb, writeConfig } from "../kit.ts";

async function refusal(...args: string[]): Promise<string> {
  const { status, out, err } = await runVerb(args);
  assert.deepEqual({ args, status, out }, { args, status: 64, out: "" });
  assert.match(err, /^[^\n]+\n$/);
  return err;
}

describe("wrong usage", () => {
  it("is told with what was probably meant", async () => {
    assert.match(await refusal("strat"), /Unknown verb "strat": did you mean start\?/);
    assert.match(await refusal("keys", "lsit"), /found "lsit": did you mean list\?/);
    assert.match(
      await refusal("check", "--cofnig", "x"),
      /option --cofnig: did you mean --config\?/,
    );
    assert.match(await refusal("completion", "zhs"), /found "zhs": did you mean zsh\?/);
  });

  it("is a file with an empty name, as a variable that is not set is", async () => {
    for (const verb of [["check"], ["keys", "import"], ["plans", "try"]]) {
      assert.match(await refusal(...verb, ""), /^Missing (FILE|NEW\.yaml)/, verb.join(" "));
    }
    assert.match(await refusal("check", "", "--config", "x.yaml"), /^Missing FILE/);
  });

  it("repeats no word that would reverse what a terminal shows", async () => {
    assert.match(await refusal("check", "--a\u202e"), /^Unknown option --a\\u202e \(/);
    assert.match(await refusal("a\u202e"), /^Unknown verb "a\\u202e":/);
  });

  it("guesses nothing that is far away", async () => {
    assert.doesNotMatch(await refusal("frobnicate"), /did you mean/);
    assert.doesNotMatch(await refusal("start", "--frobnicate"), /did you mean/);
    assert.doesNotMatch(await refusal("xy"), /did you mean/);
  });

  it("guesses the first of the names that are as near, by letters that differ or change places", () => {
    const ask = (typed: string, ...known: string[]) => didYouMean(typed, known);
    assert.equal(ask("lxst", "list", "lost"), ": did you mean list?");
    assert.equal(ask("ab", "cd"), "", "half of the word is another");
    assert.equal(ask("abdc", "abcd"), ": did you mean abcd?");
    assert.equal(ask("badcfe", "abcdef"), "", "three pairs have changed places");
    assert.equal(ask("l", "list"), "");
    assert.equal(ask("li", "list"), ": did you mean list?");
  });

  it("takes the same value twice, and behind an equals sign any value", () => {
    const options = [{ name: "reason", value: "TEXT", summary: "" }];
    const verb = { name: "x", usage: "", summary: "", options, args: [], run: async () => 0 };
    const textOf = (...argv: string[]) => {
      const parsed = parseArguments(verb, argv);
      return parsed.ok ? parsed.invocation.text("reason") : parsed.message;
    };
    assert.equal(textOf("--reason", "a", "--reason", "a"), "a");
    assert.equal(textOf("--reason=--json"), "--json");
    for (const id of ["-Ab1", "-a1", "-1"]) assert.equal(textOf("--reason", id), id);
    assert.equal(textOf("--reason", "--json"), "--reason needs a value: --reason TEXT");
  });

  it("names all that is missing at once, with the form that it takes", async () => {
    assert.match(await refusal("keys", "create"), /^Missing --env.* --plan/);
    assert.match(await refusal("keys", "create", "--env", "x"), /^Missing --plan/);
    assert.match(await refusal("pets"), /^Missing --listen HOST:PORT \(see/);
    assert.match(await refusal("bans", "lift"), /^Missing ID \(see/);
  });

  it("is told in a sentence where an option lacks its value, or has one too many", async () => {
    assert.match(
      await refusal("check", "--config"),
      /^--config needs a value: --config FILE \(see/,
    );
    assert.match(await refusal("check", "--config", "--json"), /^--config needs a value/);
    assert.match(await refusal("check", "--json=1"), /^--json takes no value/);
    assert.match(
      await refusal("bans", "list", "x"),
      /^Unexpected argument 1: no argument is taken \(see/,
    );
  });

  it("is told where one option has two values, of which one would be lost", async () => {
    const twice = ["--env", "production", "--env", "staging"];
    assert.match(
      await refusal("keys", "create", ...twice, "--plan", "free"),
      /^--env is given 2 times with different values; leave one \(see/,
    );
    assert.match(
      await refusal("keys", "create", ...twice, "--env", "test", "--plan", "free"),
      /^--env is given 3 times with different values; leave one \(see/,
    );
  });

  it("is told of a file that is not there, or no file", async () => {
    await using folder = await openFolder();
    for (const [file, why] of [
      [join(folder.path, "none.jsonl"), "there is no such file; check the path"],
      [folder.path, "it is a folder; name a file"],
    ]) {
      const { status, err } = await runVerb(["keys", "import", String(file)]);
      assert.deepEqual([status, err], [1, `Cannot read ${file}: ${why}\n`]);
    }
  });

  it("is no success of any verb whose configuration is not there", async () => {
    await using folder = await openFolder();
    const config = ["--config", join(folder.path, "none.yaml")];
    for (const verb of each([
      ...["status", "reload", "check", "deprecations", "explain x", "usage", "usage x"],
      ...["bans list", "bans why x", "bans lift x", "bans add x --for 1h", "audit --log x"],
      ...["keys list", "keys show x", "keys revoke x", "keys rotate x", "keys set x --name y"],
      ...["keys create --env production --plan free", "keys export", "accounts list"],
      ...["accounts show x", "accounts set x --plan pro", "accounts suspend x"],
      ...["accounts resume x", "accounts reset x", "plans list"],
    ])) {
      const { status, out, err } = await runVerb([...verb.split(" "), ...config]);
      assert.deepEqual([verb, status, out], [verb, 78, ""], err);
      assert.match(err, /none\.yaml/);
    }
  });

  it("is told of an address for --admin that is none", async () => {
    for (const verb of [["explain", "x"], ["deprecations"], ["audit", "--log", "x"]]) {
      assert.match(
        await refusal(...verb, "--admin", "foo"),
        /^Cannot read --admin as the address of an admin listener .*: the value is "foo"$/m,
      );
    }
  });

  it("is told where the name of a file is empty, as where it is missing", async () => {
    for (const empty of [["--config="], ["--config", ""]]) {
      const told = await refusal("check", ...empty);
      assert.match(told, /^--config needs a value: --config FILE/);
    }
    assert.match(await refusal("audit", "--log="), /^--log needs a value: --log FILE/);
  });

  it("is told where a length of time is none that a thing may last", async () => {
    for (const [verb, option] of [
      [["bans", "add", "x"], "--for"],
      [["accounts", "suspend", "x"], "--for"],
      [["keys", "set", "x"], "--expires"],
    ] as const) {
      const told = await refusal(...verb, option, "0s");
      assert.equal(told, `Cannot use ${option} 0s: it must be from 1ms to 36525d\n`);
    }
  });
});

describe("help", () => {
  it("of every verb has an example of that verb, which parses", async () => {
    const { out } = await runVerb(["help"]);
    const listed = /^Usage: tollgate VERB …\n\n((?: {2}\S.*\n)+)/m.exec(out)?.[1] ?? "";
    const verbs = listed
      .split("\n")
      .map((line) => line.trim().split(/ {2,}/)[0] ?? "")
      .filter((name) => name !== "" && name !== "help [VERB]");
    assert.ok(verbs.length >= 15, listed);
    for (const verb of verbs) {
      const help = await runVerb([...verb.split(" "), "--help"]);
      assert.equal(help.status, 0);
      const example = /\nExample:\n {2}tollgate (.+)\n$/.exec(help.out)?.[1] ?? "";
      assert.ok(example.startsWith(verb), `${verb}: ${help.out}`);
    }
  });

  it("of verbs that share a word has that word in its usage, and an example", async () => {
    for (const word of ["keys", "accounts", "bans", "plans"]) {
      for (const call of [
        [word, "--help"],
        ["help", word],
      ]) {
        const { status, out } = await runVerb(call);
        assert.equal(status, 0);
        assert.ok(out.startsWith(`Usage: tollgate ${word} VERB …\n`), out);
        assert.match(out, new RegExp(`\nExample:\n {2}tollgate ${word} .+\n$`));
      }
    }
  });

  it("and version are answered on stdout, version as JSON too", async () => {
    assert.equal((await runVerb(["version"])).out, "tollgate 9.8.7\n");
    assert.equal((await runVerb(["--version"])).out, "tollgate 9.8.7\n");
    assert.equal((await runVerb(["version", "--json"])).out, '{"version":"9.8.7"}\n');
    assert.match(await refusal("version", "--jsno"), /did you mean --json\?/);
  });
});

describe("completion", () => {
  it("in bash offers verbs, what follows them, and their options", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "complete.bash");
    writeFileSync(file, (await runVerb(["completion", "bash"])).out);
    const complete = (...typed: string[]) => {
      const words = ["tollgate", ...typed].map((word) => `"${word}"`).join(" ");
      const script = `source "${file}"; COMP_WORDS=(${words}); COMP_CWORD=${typed.length}; _tollgate; echo "\${COMPREPLY[*]}"`;
      return execFileSync("bash", ["-c", script], { encoding: "utf8" }).trim().split(" ");
    };
    assert.deepEqual(complete("sta"), ["start", "status"]);
    assert.deepEqual(complete("bans", "l"), ["list", "lift"]);
    assert.deepEqual(complete("keys", "create", "--e"), ["--env", "--expires"]);
    assert.deepEqual(complete("completion", ""), [
      "bash",
      "zsh",
      "fish",
      "--names",
      "--config",
      "--json",
      "--help",
    ]);
  });

  it("in bash offers the plans and environments of the configuration, and files", async () => {
    await using folder = await openFolder();
    const config = await writeConfig(folder, { more: "log: { level: loud }\n" });
    const file = join(folder.path, "complete.bash");
    writeFileSync(file, (await runVerb(["completion", "bash"])).out);
    const [node, main] = [process.execPath, join(import.meta.dirname, "../../../src/main.ts")];
    const complete = (...typed: string[]) => {
      const words = ["tollgate", ...typed].map((word) => `"${word}"`).join(" ");
      const script = `tollgate() { "${node}" "${main}" "$@"; }; source "${file}"; COMP_WORDS=(${words}); COMP_CWORD=${typed.length}; _tollgate; echo "\${COMPREPLY[*]}"`;
      const options = { encoding: "utf8", cwd: folder.path } as const;
      return execFileSync("bash", ["-c", script], options).trim().split(" ");
    };
    const create = ["keys", "create", "--config", config];
    // The file has a mistake elsewhere: its plans and environments are offered all the same.
    assert.deepEqual(complete(...create, "--plan", ""), ["free", "pro", "business", "enterprise"]);
    assert.deepEqual(complete(...create, "--plan", "b"), ["business"]);
    assert.deepEqual(complete(...create, "--env", "s"), ["staging"]);
    for (const option of ["--config", "--log", "--data"]) {
      assert.deepEqual(complete("check", option, "tollgate."), ["tollgate.yaml"], option);
    }
    assert.deepEqual(complete("keys", "create", "--plan", ""), [""], "there is no configuration");
  });

  it("in bash leaves no variable of its own in the shell of the person who types", async () => {
    await using folder = await openFolder();
    const file = join(folder.path, "complete.bash");
    writeFileSync(file, (await runVerb(["completion", "bash"])).out);
    // The words of the call: completion bash --names plan --config=one.yaml.
    const typed = 'COMP_WORDS=(tollgate keys create --config one.yaml --plan ""); COMP_CWORD=6';
    const left = `echo "\${COMPREPLY[*]}[$kind$file$word$before$words$options$typed$current$previous]"`;
    const script = `tollgate() { echo "$4 $5"; }; source "${file}"; ${typed}; _tollgate; ${left}`;
    const said = execFileSync("bash", ["-c", script], { encoding: "utf8" });
    assert.equal(said, "plan --config=one.yaml[]\n");
  });

  it("has scripts that a shell can read to their end, those of zsh by its syntax for bash", async () => {
    await using folder = await openFolder();
    for (const shell of ["bash", "zsh"]) {
      const file = join(folder.path, shell);
      writeFileSync(file, (await runVerb(["completion", shell])).out);
      execFileSync("bash", ["-n", file], { stdio: "pipe" });
    }
  });

  it("in fish offers an option after the whole verb alone, with the values that the configuration has", async () => {
    const { out } = await runVerb(["completion", "fish"]);
    const lines = out.split("\n");
    const seen = (...words: string[]) => {
      return words.map((word) => `__fish_seen_subcommand_from ${word}`).join("; and ");
    };
    const create = `complete -c tollgate -n "${seen("keys", "create")}"`;
    const names = (kind: string) => `"(__tollgate_names ${kind})"`;
    for (const line of [
      `${create} -l plan -xa ${names("plan")}`,
      `${create} -l env -xa ${names("env")}`,
      `${create} -l config -rF`,
      `${create} -l json`,
      `complete -c tollgate -n "${seen("start")}" -l config -rF`,
    ]) {
      assert.ok(lines.includes(line), line);
    }
    const bans = lines.find((line) => line.includes(`"${seen("bans")}; and not `));
    assert.match(bans ?? "", / -f -a "list add lift why"$/);
  });

  it("is one JSON value with --json", async () => {
    const { out } = await runVerb(["completion", "bash"]);
    const told = await runVerb(["completion", "bash", "--json", "--config", "nowhere.yaml"]);
    assert.deepEqual(JSON.parse(told.out), { shell: "bash", script: out });
  });

  it("for zsh and fish names every verb", async () => {
    for (const shell of ["zsh", "fish"]) {
      const { out, status } = await runVerb(["completion", shell]);
      assert.equal(status, 0);
      for (const word of ["start", "keys", "create", "reload", "completion", "grace"]) {
        assert.match(out, new RegExp(`\\b${word}\\b`), shell);
      }
    }
  });
});
