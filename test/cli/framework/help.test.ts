import assert from "node:assert/strict";
import { describe, it } from "vitest";
import { generalHelp, groupHelp, verbHelp } from "../../../src/cli/framework/help.ts";
import { formatTable, styleOf } from "../../../src/cli/framework/table.ts";
import type { Option, Verb } from "../../../src/cli/framework/verb.ts";
import { statusUnwritten } from "../../../src/cli/run.ts";
import { runVerb } from "../kit.ts";

const verbOf = (name: string, usage: string, options: readonly Option[] = []): Verb => ({
  ...{ name, usage, options, summary: `does ${name}`, args: [], run: async () => 0 },
});
const LOG: Option = { name: "log", value: "FILE", repeats: true, summary: "a log" };
const JSON_FLAG: Option = { name: "json", summary: "as JSON" };

describe("the help", () => {
  it("of a verb has its usage, its options in two columns, and its example", () => {
    const verb = { ...verbOf("audit", "--log FILE…", [LOG, JSON_FLAG]), example: "audit --log a" };
    assert.equal(
      verbHelp(verb),
      `Usage: tollgate audit --log FILE…

does audit

  --log FILE …  a log
  --json        as JSON

Example:
  tollgate audit --log a
`,
    );
    assert.equal(verbHelp(verbOf("up", "")), "Usage: tollgate up\n\ndoes up\n");
  });

  it("of a group has its verbs, and the first example among them", () => {
    const [list, show] = ["list", "show"].map((name) => ({
      ...verbOf(`keys ${name}`, ""),
      example: `keys ${name} x`,
    })) as [Verb, Verb];
    const verbs =
      "  keys add   does keys add\n  keys list  does keys list\n  keys show  does keys show\n";
    assert.equal(
      groupHelp("keys", [verbOf("keys add", ""), list, show]),
      `Usage: tollgate keys VERB …\n\n${verbs}\nExample:\n  tollgate keys list x\n`,
    );
  });

  it("of all has the verbs with help itself, and what each exit status means", () => {
    assert.equal(
      generalHelp([verbOf("start", "")]),
      `Tollgate, an API gateway: bearer keys, exact quotas and bans.

Usage: tollgate VERB …

  start        does start
  help [VERB]  how to use a verb, with an example

Exit status: 0 done, 1 failed or unknown ID, 64 wrong usage, 78 wrong configuration.

Example:
  tollgate start --config config/tollgate.yaml
`,
    );
  });
});

describe("wrong usage", () => {
  const saysOf = async (...args: string[]) => {
    const { status, out, err } = await runVerb(args);
    assert.deepEqual([status, out], [64, ""]);
    return err;
  };

  it("names the help that is nearest: of the verb, of its group, or of all", async () => {
    assert.equal(await saysOf("bans", "lift"), "Missing ID (see: tollgate help bans lift)\n");
    assert.match(await saysOf("keys", "lsit"), / \(see: tollgate help keys\)\n$/);
    assert.match(await saysOf("strat"), / \(see: tollgate help\)\n$/);
    assert.match(await saysOf("hlep"), /^Unknown verb "hlep": did you mean help\? /);
    assert.match(await saysOf(), /[^\n]\n$/);
  });

  it("names every verb where none is near, and what was found after the first word of some", async () => {
    const { out } = await runVerb(["help"]);
    const words = [...out.matchAll(/^ {2}([a-z]+)/gm)].map(([, word]) => word);
    const listed = [...new Set(words)].filter((word) => word !== "tollgate").join(", ");
    const all = `Unknown verb "frobnicate": expected ${listed} (see: tollgate help)\n`;
    assert.equal(await saysOf("frobnicate"), all);
    const plans = "Expected list, try after plans: found nothing (see: tollgate help plans)\n";
    assert.equal(await saysOf("plans"), plans);
  });

  it("says that options follow the verb", async () => {
    const follow =
      /^Unknown verb "--config": options follow the verb, as in tollgate check --config /;
    assert.match(await saysOf("--config", "tollgate.yaml", "keys", "list"), follow);
  });

  it("is a verb that only a gateway with a channel to it runs", async () => {
    assert.match(await saysOf("worker"), /^Unknown verb "worker"/);
  });

  it("is a whole key in any of the arguments, which is not told", async () => {
    const key = "pets_live_Smuggle0Test0Key0For0Vectors004Lozas";
    for (const args of [
      ["keys", "show", key, "--json"],
      ["keys", "show", "--json", key],
    ]) {
      const said = await saysOf(...args);
      assert.match(said, /^An argument holds a whole key/);
      assert.doesNotMatch(said, /Smuggle/);
    }
  });

  it("is the next option in place of a value, be it a short one", async () => {
    assert.match(await saysOf("check", "--config", "-h"), /^--config needs a value/);
  });
});

describe("what a verb prints", () => {
  it("is the help of all by each of its names, of a group by -h, and the version as JSON by --version", async () => {
    const help = await runVerb(["help"]);
    for (const name of ["-h", "--help"]) assert.deepEqual(await runVerb([name]), help);
    assert.equal(help.status, 0);
    assert.deepEqual(await runVerb(["check", "-h"]), await runVerb(["check", "--help"]));
    const group = await runVerb(["keys", "-h"]);
    assert.deepEqual([group.status, group.out], [0, (await runVerb(["keys", "--help"])).out]);
    assert.equal((await runVerb(["--version", "--json"])).out, '{"version":"9.8.7"}\n');
  });

  it("is at a terminal JSON of several lines, and a table with its names in bold", async () => {
    const { out } = await runVerb(["version", "--json"], { isTty: true });
    assert.equal(out, '{\n  "version": "9.8.7"\n}\n');
    const terminal = { isTty: true, env: {} };
    const { bold } = styleOf(terminal);
    const table = formatTable(terminal as Parameters<typeof formatTable>[0], ["ID"], [["k_1"]]);
    assert.equal(table, `${bold("ID")}\nk_1\n`);
  });

  it("and cannot be written is told with its reason, and leaves a status that says more as it is", () => {
    for (const [code, status, ended, told] of [
      ["EIO", 0, 1, "Cannot write to stdout: broken\n"],
      ["EIO", 64, 64, "Cannot write to stdout: broken\n"],
      ["ENOSPC", 0, 1, "Cannot write to stdout: the disk is full (ENOSPC)\n"],
      ["EPIPE", 0, 0, ""],
      ["EPIPE", 78, 78, ""],
    ] as const) {
      let err = "";
      const say = (text: string) => {
        err += text;
      };
      const failure = Object.assign(new Error("broken"), { code });
      assert.deepEqual([statusUnwritten(failure, { status, err: say }), err], [ended, told]);
    }
  });

  it("is of a failure its message, without the name of its class", async () => {
    const said = await runVerb(["explain", "x", "--log", "nowhere.log"]);
    assert.equal(said.status, 1);
    assert.match(said.err, /^Cannot read the log nowhere\.log: /);
  });
});
